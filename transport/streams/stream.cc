// SPDX-License-Identifier: Apache-2.0
#include "transport/streams/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/socket/interfaces.h"

namespace rondo::net {
namespace {

constexpr int kEventsPerWait = 32;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

std::size_t total(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

msghdr message_of(std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

std::string text_of(const IoOutcome& outcome) {
  if (outcome.end) return "the peer closed its end";
  if (outcome.error == EBADMSG)
    return "a record does not verify: bytes were changed, replayed, left out or inserted on the "
           "way";
  return std::strerror(outcome.error);
}

Result<Poller> Poller::open() {
  Socket epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno(errno, "cannot create an epoll descriptor");
  return Poller(std::move(epoll));
}

bool Poller::wait(std::chrono::milliseconds at_most) {
  std::array<epoll_event, kEventsPerWait> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), kEventsPerWait, static_cast<int>(at_most.count()));
  for (int i = 0; i < count; ++i) {
    auto& state = *static_cast<Readiness*>(events[i].data.ptr);
    const std::uint32_t what = events[i].events;
    state.hangup |= (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    state.readable |= (what & EPOLLIN) != 0 || state.hangup;
    state.writable |= (what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
  }
  return count > 0;
}

Watch::Watch(Poller& poller, int fd) : poller_(poller), fd_(fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &state_;
  // If the registration fails, the descriptor counts as always readable.
  state_.hangup = ::epoll_ctl(poller.epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0;
  state_.readable = state_.hangup;
}

Watch::~Watch() { ::epoll_ctl(poller_.epoll_.get(), EPOLL_CTL_DEL, fd_, nullptr); }

Stream::Stream(Poller& poller, Socket socket) : poller_(poller), socket_(std::move(socket)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &state_;
  if (::epoll_ctl(poller.epoll_.get(), EPOLL_CTL_ADD, socket_.get(), &event) == 0) return;
  error_ = errno;
  state_ = {true, true, true};
}

// The kernel removes a closed descriptor by itself only if no forked child holds it.
Stream::~Stream() {
  if (socket_) ::epoll_ctl(poller_.epoll_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
}

IoOutcome Stream::read(std::span<iovec> parts) {
  assert(total(parts) > 0 && "0 bytes read mean the end");
  if (error_ != 0) return {0, error_, false};
  if (sealing_) return read_sealed(parts);
  ssize_t count;
  do {
    msghdr message = message_of(parts);
    count = parts.size() == 1 ? ::recv(socket_.get(), parts[0].iov_base, parts[0].iov_len, 0)
                              : ::recvmsg(socket_.get(), &message, 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && would_block(errno)) {
    state_.readable = state_.hangup;
    return {};
  }
  if (count < 0) return {0, error_ = errno, false};
  if (count == 0) return {0, 0, true};
  if (static_cast<std::size_t>(count) < total(parts)) state_.readable = state_.hangup;
  return {static_cast<std::size_t>(count), 0, false};
}

IoOutcome Stream::write(std::span<iovec> parts) {
  if (error_ != 0) return {0, error_, false};
  if (sealing_) return write_sealed(parts);
  ssize_t count;
  do {
    msghdr message = message_of(parts);
    count = parts.size() == 1
                ? ::send(socket_.get(), parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
                : ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && would_block(errno)) {
    state_.writable = false;
    return {};
  }
  if (count < 0) return {0, errno, false};
  if (static_cast<std::size_t>(count) < total(parts)) state_.writable = false;
  return {static_cast<std::size_t>(count), 0, false};
}

void Stream::seal(auth::Records records) {
  assert(sealing_ == nullptr);
  sealing_ = std::make_unique<Sealing>(Sealing{std::move(records)});
}

IoOutcome Stream::read_sealed(std::span<iovec> parts) {
  std::size_t given = 0;
  for (iovec& part : parts) {
    for (std::size_t filled = 0; filled < part.iov_len;) {
      ByteSpan& opened = sealing_->opened;
      if (!opened.empty()) {
        const std::size_t count = std::min(opened.size(), part.iov_len - filled);
        std::memcpy(static_cast<std::byte*>(part.iov_base) + filled, opened.data(), count);
        opened = opened.subspan(count);
        filled += count;
        given += count;
        continue;
      }
      auto next = sealing_->records.next();
      if (!next.ok()) {
        error_ = EBADMSG;
        return {given, given == 0 ? error_ : 0, false};
      }
      if (*next) {
        opened = **next;
        continue;
      }
      const auto room = sealing_->records.room();
      const ssize_t count = ::recv(socket_.get(), room.data(), room.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && would_block(errno)) {
        state_.readable = state_.hangup;
        return {given, 0, false};
      }
      if (count < 0) error_ = errno;
      if (count <= 0) return {given, given == 0 ? error_ : 0, given == 0 && count == 0};
      sealing_->records.received(static_cast<std::size_t>(count));
    }
  }
  return {given, 0, false};
}

IoOutcome Stream::write_sealed(std::span<iovec> parts) {
  assert(!parts.empty() && parts.size() <= kMaxParts);
  Sealing& out = *sealing_;
  if (out.bytes == 0) {
    std::array<ByteSpan, kMaxParts> taken;
    std::size_t count = 0;
    for (const iovec& part : parts) {
      const std::size_t left = auth::Records::kMaxBytes - out.bytes;
      const auto* const bytes = static_cast<const std::byte*>(part.iov_base);
      taken[count] = {bytes, std::min<std::size_t>(part.iov_len, left)};
      out.bytes += taken[count++].size();
    }
    out.outbox.clear();
    out.sent = 0;
    if (!out.records.seal(std::span(taken).first(count), out.outbox).ok())
      return {0, error_ = ENOMEM, false};
  }
  while (out.sent < out.outbox.size()) {
    const ssize_t count = ::send(socket_.get(), out.outbox.data() + out.sent,
                                 out.outbox.size() - out.sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) {
      state_.writable = false;
      return {};
    }
    if (count < 0) return {0, errno, false};
    out.sent += static_cast<std::size_t>(count);
  }
  return {std::exchange(out.bytes, 0), 0, false};
}

std::string interface_of(const Stream& stream) { return interface_of(stream.socket()); }

IoOutcome move(auth::Handshake& handshake, Stream& stream) {
  while (handshake.talking()) {
    const bool receives = !handshake.room().empty();
    if (receives ? !stream.readable() : !stream.writable()) return {};
    iovec part = receives ? iovec{handshake.room().data(), handshake.room().size()}
                          : iovec{const_cast<std::byte*>(handshake.unsent().data()),
                                  handshake.unsent().size()};
    const IoOutcome outcome = receives ? stream.read({&part, 1}) : stream.write({&part, 1});
    if (outcome.over()) return outcome;
    if (outcome.bytes == 0) continue;
    if (receives) {
      handshake.received(outcome.bytes);
    } else {
      handshake.sent(outcome.bytes);
    }
  }
  return {};
}

namespace {

void set_option(const Stream& stream, int level, int option, int value) {
  ::setsockopt(stream.socket().get(), level, option, &value, sizeof(value));
}

}  // namespace

void watch(const Stream& stream, const Vigilance& vigilance, bool few_bytes) {
  const int probe = std::max(1, vigilance.seconds / 4);
  set_option(stream, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(stream, IPPROTO_TCP, TCP_KEEPIDLE, probe);
  set_option(stream, IPPROTO_TCP, TCP_KEEPINTVL, probe);
  set_option(stream, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (few_bytes) set_option(stream, IPPROTO_TCP, TCP_USER_TIMEOUT, vigilance.seconds * 1000);
}

void close_gently(const Stream& stream) {
  constexpr int kMaxReads = 64;
  ::shutdown(stream.socket().get(), SHUT_WR);
  std::byte waste[16 << 10];
  for (int i = 0; i < kMaxReads; ++i)
    if (::recv(stream.socket().get(), waste, sizeof(waste), MSG_DONTWAIT) <= 0) return;
}

}  // namespace rondo::net
