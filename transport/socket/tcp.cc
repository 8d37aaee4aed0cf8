// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/tcp.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>

namespace rondo::net {
namespace {

using std::chrono::milliseconds;

constexpr auto kAttempt = milliseconds(2000);
constexpr auto kFirstPause = milliseconds(5);
constexpr auto kLongestPause = milliseconds(500);

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

Error failed(int error, std::string_view what) {
  if (!out_of_descriptors(error)) return fail_errno(error, "{}", what);
  return fail_errno(error, "{}: raise the number of open files (ulimit -n)", what);
}

Result<Socket> open_tcp(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed(errno, "cannot create a TCP socket");
  return socket;
}

// What accept4() reports of the next connection, not of the listener (accept(2), "Error handling").
bool ended_in_queue(int error) {
  constexpr int kOfConnection[] = {EINTR,       ECONNABORTED, ECONNRESET,  EPROTO,
                                   ENOPROTOOPT, ENETDOWN,     ENETUNREACH, EHOSTDOWN,
                                   ENONET,      EHOSTUNREACH, ETIMEDOUT};
  return std::find(std::begin(kOfConnection), std::end(kOfConnection), error) !=
         std::end(kOfConnection);
}

void set_no_delay(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Sets `error` to the errno of a failed bind.
Result<Socket> bind_tcp(const SocketAddress& at, int& error, bool shared = false) {
  RONDO_TRY(Socket socket, open_tcp(at.family()));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (shared) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  if (at.family() == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (::bind(socket.get(), at.raw(), at.length()) == 0) return socket;
  error = errno;
  return fail_errno(error, "cannot bind the address {}", at.text());
}

Status start_listening(const Socket& socket) {
  if (::listen(socket.get(), SOMAXCONN) == 0) return ok_status();
  return fail_errno(errno, "cannot listen");
}

// Listens at all addresses, at one port that the kernel chooses. Bound sockets stay in `made`.
Status try_listen_at(std::span<const SocketAddress> addresses, Listening& made, int& error) {
  std::uint16_t port = 0;
  for (const SocketAddress& address : addresses) {
    auto socket = bind_tcp(address.with_port(port), error);
    if (!socket.ok() && error == EADDRNOTAVAIL && addresses.size() > 1) continue;
    if (!socket.ok()) return socket.error();
    RONDO_TRY(const SocketAddress at, local_address(*socket));
    port = at.port();
    made.sockets.push_back(std::move(*socket));
    made.addresses.push_back(address.with_port(port));
  }
  for (const Socket& socket : made.sockets) RONDO_CHECK_OK(start_listening(socket));
  return ok_status();
}

}  // namespace

Result<Socket> listen_tcp(const SocketAddress& at, bool shared) {
  int error = 0;
  RONDO_TRY(Socket socket, bind_tcp(at, error, shared));
  RONDO_CHECK_OK(start_listening(socket));
  return socket;
}

// A port that is free at one address may be taken at another: then all addresses start again with a
// new port. The rejected port stays bound until the end; otherwise the kernel would offer it
// repeatedly when few ports are free (thousands of connections in TIME_WAIT).
Result<Listening> listen_at(std::span<const SocketAddress> addresses) {
  constexpr int kTurns = 100;
  std::vector<Listening> refused;
  for (int turn = 1;; ++turn) {
    int error = 0;
    Listening made;
    const Status tried = try_listen_at(addresses, made, error);
    if (tried.ok() && !made.sockets.empty()) return made;
    if (tried.ok())
      return fail(StatusCode::kSystemError, "this host has none of the {} addresses to listen at",
                  addresses.size());
    if (error != EADDRINUSE || turn == kTurns) return tried.error();
    refused.push_back(std::move(made));
  }
}

Result<SocketAddress> local_address(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return fail_errno(errno, "cannot read a socket's address");
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage));
}

Result<std::optional<Accepted>> accept_tcp(const Socket& listener, bool* lasts) {
  for (;;) {
    sockaddr_storage storage{};
    socklen_t length = sizeof(storage);
    Socket socket(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      set_no_delay(socket);
      return std::optional(Accepted{
          std::move(socket), SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage))});
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Accepted>();
    if (ended_in_queue(errno)) continue;
    if (out_of_descriptors(errno) || errno == ENOBUFS || errno == ENOMEM)
      return failed(errno, "cannot accept a connection");
    if (lasts != nullptr) *lasts = true;
    return failed(errno, "cannot accept a connection (accept4)");
  }
}

Result<Socket> start_connect(const SocketAddress& to, bool* no_socket) {
  auto made = open_tcp(to.family());
  if (no_socket != nullptr) *no_socket = !made.ok();
  RONDO_TRY(Socket socket, std::move(made));
  set_no_delay(socket);
  if (::connect(socket.get(), to.raw(), to.length()) != 0 && errno != EINPROGRESS && errno != EINTR)
    return fail_errno(errno, "cannot connect to {}", to.text());
  return socket;
}

int connect_outcome(const Socket& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

Result<Socket> connect_tcp(std::span<const SocketAddress> candidates, const Deadline& deadline) {
  if (candidates.empty()) return fail(StatusCode::kInvalidArgument, "no address to connect to");
  std::string tried = "no attempt";
  Clock::duration pause = kFirstPause;
  for (std::size_t turn = 0;; ++turn) {
    const auto& to = candidates[turn % candidates.size()];
    const std::string what = fmt::format("connecting to {} (before: {})", to.text(), tried);
    if (auto socket = start_connect(to); socket.ok()) {
      pollfd entry{socket->get(), POLLOUT, 0};
      RONDO_TRY(const bool ready, wait_until({&entry, 1}, Clock::now() + kAttempt, deadline, what));
      const int error = ready ? connect_outcome(*socket) : ETIMEDOUT;
      if (error == 0) return socket;
      tried = fmt::format("{}: {}", to.text(), std::strerror(error));
    } else {
      tried = socket.error().text;
    }
    if ((turn + 1) % candidates.size() != 0) continue;
    RONDO_TRY([[maybe_unused]] const bool none,
              wait_until({}, Clock::now() + pause, deadline, what));
    pause = std::min<Clock::duration>(pause * 2, kLongestPause);
  }
}

}  // namespace rondo::net
