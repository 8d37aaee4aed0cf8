#include "transport/socket/framed_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rondo::net {
namespace {

constexpr std::size_t kReceiveBytes = 16 << 10;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Error closed_error(int error) {
  if (error == 0) return fail(Status::kRemoteError, "the peer closed the connection");
  Error text = fail_errno(error, "the connection broke");
  text.status = Status::kRemoteError;
  return text;
}

}  // namespace

Done FramedLink::send(std::uint16_t type, std::uint32_t round, ByteSpan payload) {
  auto header = frame_header(type, round, payload.size());
  std::size_t taken = 0;
  if (!unsent()) {
    iovec parts[2] = {{header.data(), header.size()},
                      {const_cast<std::byte*>(payload.data()), payload.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (count < 0 && !would_block(errno)) return closed_error(errno);
    taken = count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  const auto keep = [&](ByteSpan part) {
    const std::size_t skip = std::min(taken, part.size());
    outbox_.insert(outbox_.end(), part.begin() + static_cast<std::ptrdiff_t>(skip), part.end());
    taken -= skip;
  };
  keep(header);
  keep(payload);
  return done();
}

Done FramedLink::flush() {
  while (unsent()) {
    const ssize_t count =
        ::send(socket_.get(), outbox_.data() + sent_, outbox_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return done();
    if (count < 0) return closed_error(errno);
    sent_ += static_cast<std::size_t>(count);
  }
  outbox_.clear();
  sent_ = 0;
  return done();
}

Result<std::optional<Frame>> FramedLink::receive() {
  std::array<std::byte, kReceiveBytes> chunk;
  for (;;) {
    Result<std::optional<Frame>> frame = parser_.next();
    if (!frame.ok() || frame->has_value()) return frame;
    if (closed_) return closed_error(0);
    const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return std::optional<Frame>();
    if (count <= 0) {
      closed_ = true;
      return closed_error(count < 0 ? errno : 0);
    }
    parser_.feed(ByteSpan(chunk).first(static_cast<std::size_t>(count)));
  }
}

pollfd FramedLink::entry() const {
  return {socket_.get(), static_cast<short>(unsent() ? POLLIN | POLLOUT : POLLIN), 0};
}

Done FramedLink::flush_all(const Patience& patience, std::string_view what) {
  for (;;) {
    RONDO_CHECK_OK(flush());
    if (!unsent()) return done();
    pollfd ready{socket_.get(), POLLOUT, 0};
    RONDO_CHECK_OK(wait_ready({&ready, 1}, patience, what));
  }
}

Result<Frame> FramedLink::await(const Patience& patience, std::string_view what) {
  for (;;) {
    RONDO_TRY(auto frame, receive());
    if (frame) return std::move(*frame);
    pollfd ready = entry();
    RONDO_CHECK_OK(wait_ready({&ready, 1}, patience, what));
    RONDO_CHECK_OK(flush());
  }
}

}  // namespace rondo::net
