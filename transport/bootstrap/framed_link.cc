// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/framed_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace rondo::bootstrap {
namespace {

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Error closed_error(int error) {
  if (error == 0) return fail(StatusCode::kRemoteError, "the peer closed the connection");
  Error text = fail_errno(error, "the connection broke");
  text.code = StatusCode::kRemoteError;
  return text;
}

Error nobody_error() { return fail(StatusCode::kRemoteError, "no peer is connected"); }

}  // namespace

Result<FramedLink> FramedLink::make(net::Socket socket, const auth::Digest& session_key,
                                    auth::Records::Side side) {
  RONDO_TRY(auto records, auth::Records::make(session_key, side));
  return FramedLink(std::move(socket), std::move(records));
}

Status FramedLink::send(std::uint16_t type, std::uint32_t round, ByteSpan payload) {
  if (!records_) return nobody_error();
  const auto header = net::frame_header(type, round, payload.size());
  const ByteSpan parts[] = {
      header, payload.first(std::min(payload.size(), auth::Records::kMaxBytes - header.size()))};
  RONDO_CHECK_OK(records_->seal(parts, outbox_));
  RONDO_CHECK_OK(records_->seal(payload.subspan(parts[1].size()), outbox_));
  ++traffic_.frames;
  return flush();
}

Status FramedLink::flush() {
  while (unsent()) {
    const ssize_t count =
        ::send(socket_.get(), outbox_.data() + sent_, outbox_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return ok_status();
    if (count < 0) return closed_error(errno);
    sent_ += static_cast<std::size_t>(count);
    traffic_.bytes += static_cast<std::uint64_t>(count);
  }
  outbox_.clear();
  sent_ = 0;
  return ok_status();
}

Result<std::optional<Frame>> FramedLink::receive() {
  if (!records_) return nobody_error();
  for (;;) {
    Result<std::optional<Frame>> frame = parser_.next();
    if (!frame.ok()) return frame;
    if (frame->has_value()) return ++traffic_.frames, frame;
    RONDO_TRY(const auto content, records_->next());
    if (content) {
      parser_.feed(*content);
      continue;
    }
    if (closed_) return closed_error(0);
    const auto room = records_->room();
    const ssize_t count = ::recv(socket_.get(), room.data(), room.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return std::optional<Frame>();
    if (count <= 0) {
      closed_ = true;
      return closed_error(count < 0 ? errno : 0);
    }
    records_->received(static_cast<std::size_t>(count));
    traffic_.bytes += static_cast<std::uint64_t>(count);
  }
}

pollfd FramedLink::entry() const {
  return {socket_.get(), static_cast<short>(unsent() ? POLLIN | POLLOUT : POLLIN), 0};
}

Status FramedLink::flush_all(const net::Deadline& deadline, std::string_view what) {
  for (;;) {
    RONDO_CHECK_OK(flush());
    if (!unsent()) return ok_status();
    pollfd ready{socket_.get(), POLLOUT, 0};
    RONDO_CHECK_OK(net::wait_ready({&ready, 1}, deadline, what));
  }
}

Result<Frame> FramedLink::await(const net::Deadline& deadline, std::string_view what) {
  for (;;) {
    Result<std::optional<Frame>> frame = receive();
    if (!frame.ok()) return frame.error();
    if (frame->has_value()) return std::move(**frame);
    pollfd ready = entry();
    RONDO_CHECK_OK(net::wait_ready({&ready, 1}, deadline, what));
    RONDO_CHECK_OK(flush());
  }
}

}  // namespace rondo::bootstrap
