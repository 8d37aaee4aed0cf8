#include "transport/auth/handshake_io.h"

#include <sys/socket.h>

#include <cerrno>

namespace rondo::auth {
namespace {

// Connection errors count as errors of the other end (kRemoteError).
Status moved_or_broken(ssize_t count, bool receiving) {
  if (count > 0) return ok_status();
  if (count == 0 && receiving)
    return fail(StatusCode::kRemoteError, "the peer closed the connection during the handshake");
  Error error = fail_errno(errno, "the connection broke during the handshake");
  error.code = StatusCode::kRemoteError;
  return error;
}

bool would_block(ssize_t count) {
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN);
}

}  // namespace

Status move(Handshake& handshake, int socket) {
  while (handshake.talking()) {
    const bool receiving = !handshake.room().empty();
    const ssize_t count =
        receiving ? ::recv(socket, handshake.room().data(), handshake.room().size(), MSG_DONTWAIT)
                  : ::send(socket, handshake.unsent().data(), handshake.unsent().size(),
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (would_block(count)) return ok_status();
    RONDO_CHECK_OK(moved_or_broken(count, receiving));
    if (receiving) {
      handshake.received(static_cast<std::size_t>(count));
    } else {
      handshake.sent(static_cast<std::size_t>(count));
    }
  }
  if (handshake.state() != Handshake::State::kRefused) return ok_status();
  return fail(StatusCode::kRemoteError, "{}", handshake.why());
}

Status complete(Handshake& handshake, int socket, const std::function<Bytes()>& payload,
                const net::Deadline& deadline, std::string_view what) {
  for (;;) {
    RONDO_CHECK_OK(move(handshake, socket));
    if (handshake.state() == Handshake::State::kProven) return ok_status();
    if (handshake.state() == Handshake::State::kTurn) {
      handshake.answer(payload());
      continue;
    }
    const bool receiving = handshake.unsent().empty();
    pollfd entry{socket, static_cast<short>(receiving ? POLLIN : POLLOUT), 0};
    RONDO_CHECK_OK(net::wait_ready({&entry, 1}, deadline, what));
  }
}

}  // namespace rondo::auth
