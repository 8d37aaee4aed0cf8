// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <span>

#include "base/env.h"
#include "base/process.h"

namespace rondo::shm {
namespace {

constexpr int kBacklog = 1024;

// An abstract address: a NUL and then the name.
struct AbstractAddress {
  sockaddr_un address{};
  socklen_t length;

  explicit AbstractAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    const std::string full = "rondo-" + name;
    std::memcpy(address.sun_path + 1, full.data(), full.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

net::Socket make_socket() {
  return net::Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Error no_socket(const char* what) {
  const int error = errno;
  Error failed = fail_errno(error, "{}", what);
  if (is_shortage(error)) failed.text += " (is ulimit -n too low?)";
  if (!is_shortage(error)) failed.code = StatusCode::kInvalidUsage;
  return failed;
}

bool names(std::string_view list, uid_t uid) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    uid_t named = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), named);
    if (error == std::errc() && end == one.data() + one.size() && named == uid) return true;
    list.remove_prefix(std::min(list.size(), one.size() + 1));
  }
  return false;
}

}  // namespace

Result<UnixListener> open_unix_listener() {
  unsigned char random[16];
  fill_random(std::as_writable_bytes(std::span(random)));
  UnixListener listener;
  for (unsigned char byte : random) listener.name += fmt::format("{:02x}", byte);
  listener.fd = make_socket();
  if (!listener.fd) return no_socket("cannot create a Unix socket");
  const AbstractAddress address(listener.name);
  if (bind(listener.fd.get(), address.get(), address.length) != 0 ||
      listen(listener.fd.get(), kBacklog) != 0)
    return no_socket("cannot listen on a Unix socket");
  const UnixConnection own = connect_unix(listener.name);  // a sandbox can forbid it
  if (errno = own.error; own.error != 0) return no_socket("cannot connect to a Unix socket");
  const net::Socket accepted(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return listener;
}

UnixConnection connect_unix(const std::string& name) {
  if (name.empty() || name.size() > kMaxSocketName) return {{}, EINVAL};
  net::Socket fd = make_socket();
  if (!fd) return {{}, errno};
  const AbstractAddress address(name);
  while (connect(fd.get(), address.get(), address.length) != 0)
    if (errno != EINTR) return {{}, errno};
  return {std::move(fd), 0};
}

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

Status may_join(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return fail_errno(errno, "cannot read the credentials of a Unix socket's other end");
  return may_join_user(peer.uid);
}

Status may_join_user(uid_t uid) {
  if (uid == geteuid() || names(env::get_string("RONDO_UNIX_UIDS"), uid)) return ok_status();
  return fail(
      StatusCode::kSystemError,
      "it belongs to user {} and this process to user {}: RONDO_UNIX_UIDS={} would accept it", uid,
      geteuid(), uid);
}

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
