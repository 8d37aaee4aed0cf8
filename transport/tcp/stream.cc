#include "transport/tcp/stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace rondo::tcp {
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
  return outcome.end ? "the peer closed its end" : std::strerror(outcome.error);
}

Result<Poller> Poller::open() {
  net::Socket epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno(errno, "cannot create an epoll descriptor");
  return Poller(std::move(epoll));
}

bool Poller::wait(std::chrono::milliseconds at_most) {
  std::array<epoll_event, kEventsPerWait> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), kEventsPerWait, static_cast<int>(at_most.count()));
  for (int i = 0; i < count; ++i) {
    auto& stream = *static_cast<Stream*>(events[i].data.ptr);
    const std::uint32_t what = events[i].events;
    stream.hangup_ |= (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    stream.readable_ |= (what & EPOLLIN) != 0 || stream.hangup_;
    stream.writable_ |= (what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
  }
  return count > 0;
}

Stream::Stream(Poller& poller, net::Socket socket) : poller_(poller), socket_(std::move(socket)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = this;
  if (::epoll_ctl(poller.epoll_.get(), EPOLL_CTL_ADD, socket_.get(), &event) == 0) return;
  error_ = errno;
  readable_ = writable_ = hangup_ = true;
}

// The kernel would forget a closed descriptor by itself only if no forked child held it.
Stream::~Stream() {
  if (socket_) ::epoll_ctl(poller_.epoll_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
}

IoOutcome Stream::read(std::span<iovec> parts) {
  if (error_ != 0) return {0, error_, false};
  ssize_t count;
  do {
    msghdr message = message_of(parts);
    count = parts.size() == 1 ? ::recv(socket_.get(), parts[0].iov_base, parts[0].iov_len, 0)
                              : ::recvmsg(socket_.get(), &message, 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && would_block(errno)) {
    readable_ = hangup_;
    return {};
  }
  if (count < 0) return {0, error_ = errno, false};
  if (count == 0) return {0, 0, true};
  if (static_cast<std::size_t>(count) < total(parts)) readable_ = hangup_;
  return {static_cast<std::size_t>(count), 0, false};
}

IoOutcome Stream::write(std::span<iovec> parts) {
  if (error_ != 0) return {0, error_, false};
  ssize_t count;
  do {
    msghdr message = message_of(parts);
    count = parts.size() == 1
                ? ::send(socket_.get(), parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
                : ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && would_block(errno)) {
    writable_ = false;
    return {};
  }
  if (count < 0) return {0, errno, false};
  if (static_cast<std::size_t>(count) < total(parts)) writable_ = false;
  return {static_cast<std::size_t>(count), 0, false};
}

}  // namespace rondo::tcp
