#include "transport/shm/fd_passing.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace rondo::shm {
namespace {

constexpr auto kPause = std::chrono::milliseconds(20);  // between two attempts to receive

Status wait_ready(int fd, short events, const Deadline& deadline, const char* what) {
  pollfd entry{fd, events, 0};
  return net::wait_ready({&entry, 1}, deadline, what);
}

Error peer_left() {
  return fail(StatusCode::kRemoteError, "the process at the other end of a Unix socket left");
}

// False: at least one descriptor did not fit (descriptor limit or control buffer).
bool take_descriptors(msghdr& message, std::vector<Fd>& fds) {
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  const bool all = std::all_of(fds.begin(), fds.end(), [](const Fd& fd) { return fd.valid(); });
  return all && (message.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace

Status send_fds(int socket, int value, std::span<const int> fds, const Deadline& deadline) {
  if (fds.size() > kMaxDescriptors)
    return fail(StatusCode::kInternalError, "{} descriptors in one message, at most {}", fds.size(),
                kMaxDescriptors);
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  iovec data{&value, sizeof(value)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return ok_status();
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return peer_left();
    if (errno != EAGAIN) return fail_errno(errno, "cannot pass descriptors");
    RONDO_CHECK_OK(wait_ready(socket, POLLOUT, deadline, "passing descriptors"));
  }
}

// Peeks first, because descriptors that do not fit would be lost.
Result<FdMessage> receive_fds(int socket, const Deadline& deadline) {
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
    FdMessage received;
    received.fds.reserve(kMaxDescriptors);  // no allocation later, so no descriptor leaks
    iovec data{&received.value, sizeof(received.value)};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_PEEK | MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) {
      RONDO_CHECK_OK(wait_ready(socket, POLLIN, deadline, "waiting for shared memory"));
      continue;
    }
    if (bytes == 0 || (bytes < 0 && errno == ECONNRESET)) return peer_left();
    if (bytes < 0) return fail_errno(errno, "cannot receive descriptors");
    const bool complete = take_descriptors(message, received.fds);
    if (bytes != sizeof(received.value))
      return fail(StatusCode::kRemoteError, "a message of {} bytes arrived over a Unix socket",
                  bytes);
    if (complete) {
      if (recv(socket, &received.value, sizeof(received.value), 0) == bytes) return received;
      return peer_left();
    }
    received.fds.clear();
    const auto paused = net::wait_until({}, net::Clock::now() + kPause, deadline, "waiting");
    if (paused.code() == StatusCode::kTimeout)
      return fail(StatusCode::kSystemError,
                  "no room for passed descriptors (is ulimit -n too low?)");
    RONDO_CHECK_OK(paused);
  }
}

}  // namespace rondo::shm
