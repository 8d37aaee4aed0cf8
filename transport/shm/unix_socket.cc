#include "transport/shm/unix_socket.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/env.h"

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
  if (getrandom(random, sizeof(random), 0) != sizeof(random)) return fail_errno(errno, "getrandom");
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
  const net::Socket heard(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
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
  if (peer.uid == geteuid() || names(env::get_string("RONDO_UNIX_UIDS"), peer.uid))
    return ok_status();
  return fail(
      StatusCode::kSystemError,
      "it belongs to user {} and this process to user {}: RONDO_UNIX_UIDS={} would accept it",
      peer.uid, geteuid(), peer.uid);
}

}  // namespace rondo::shm
