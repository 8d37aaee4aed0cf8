#include "transport/shm/fd_passing.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace rondo::shm {
namespace {

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

Done wait_ready(int fd, short events, const Patience& patience, const char* what) {
  pollfd entry{fd, events, 0};
  return net::wait_ready({&entry, 1}, patience, what);
}

Error peer_left() {
  return fail(Status::kRemoteError, "the process at the other end of a Unix socket left");
}

Done same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return fail_errno(errno, "cannot read the peer's credentials");
  if (peer.uid != geteuid() && peer.uid != 0 && geteuid() != 0)
    return fail(Status::kSystemError, "refused a connection of user {}: only user {} may join",
                peer.uid, geteuid());
  return done();
}

}  // namespace

Result<UnixListener> open_unix_listener() {
  unsigned char random[16];
  if (getrandom(random, sizeof(random), 0) != sizeof(random)) return fail_errno(errno, "getrandom");
  UnixListener listener;
  for (unsigned char byte : random) listener.name += fmt::format("{:02x}", byte);
  listener.fd = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.fd) return fail_errno(errno, "cannot create a Unix socket");
  const AbstractAddress address(listener.name);
  if (bind(listener.fd.get(), address.get(), address.length) != 0 ||
      listen(listener.fd.get(), 1024) != 0)
    return fail_errno(errno, "cannot listen on a Unix socket");
  return listener;
}

Result<Fd> accept_unix(const UnixListener& listener, const Patience& patience) {
  for (;;) {
    RONDO_CHECK_OK(wait_ready(listener.fd.get(), POLLIN, patience,
                              "waiting for a process of this host to fetch shared memory"));
    Fd peer(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) continue;
    if (!peer) return fail_errno(errno, "accept on a Unix socket");
    if (!same_user(peer.get()).ok()) continue;
    return peer;
  }
}

Result<Fd> connect_unix(const std::string& name, const Patience& patience) {
  if (name.size() > kMostSocketName)
    return fail(Status::kInvalidArgument, "a Unix socket's name of {} bytes", name.size());
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(errno, "cannot create a Unix socket");
  const AbstractAddress address(name);
  while (connect(fd.get(), address.get(), address.length) != 0) {
    if (errno == ECONNREFUSED) return peer_left();
    if (errno != EAGAIN && errno != EINTR)
      return fail_errno(errno, "cannot reach the host's leader by Unix socket");
    // Its backlog is full; it empties as the leader accepts. No descriptor tells when.
    const auto soon = std::min(net::Clock::now() + std::chrono::milliseconds(1), patience.deadline);
    RONDO_TRY([[maybe_unused]] const bool never,
              net::wait_until({}, soon, patience, "connecting to the host's leader"));
  }
  RONDO_CHECK_OK(same_user(fd.get()));
  return fd;
}

Done send_fds(int socket, int value, std::span<const int> fds, const Patience& patience) {
  if (fds.size() > kMostDescriptors)
    return fail(Status::kInternalError, "{} descriptors in one message, at most {}", fds.size(),
                kMostDescriptors);
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
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
    if (sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return done();
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return peer_left();
    if (errno != EAGAIN) return fail_errno(errno, "cannot pass descriptors");
    RONDO_CHECK_OK(wait_ready(socket, POLLOUT, patience, "passing descriptors"));
  }
}

Result<FdMessage> receive_fds(int socket, const Patience& patience) {
  for (;;) {
    RONDO_CHECK_OK(wait_ready(socket, POLLIN, patience, "waiting for shared memory"));
    alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
    FdMessage received;
    iovec data{&received.value, sizeof(received.value)};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (bytes == 0 || (bytes < 0 && errno == ECONNRESET)) return peer_left();
    if (bytes < 0) return fail_errno(errno, "cannot receive descriptors");
    if (message.msg_flags & MSG_CTRUNC)
      return fail(Status::kSystemError, "no room for passed descriptors (ulimit -n)");
    if (bytes != sizeof(received.value))
      return fail(Status::kRemoteError, "a message of {} bytes came by a Unix socket", bytes);
    for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
      if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
        received.fds.emplace_back(fd);
      }
    }
    return received;
  }
}

}  // namespace rondo::shm
