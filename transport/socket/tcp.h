// SPDX-License-Identifier: Apache-2.0
// Listening, accepting and connecting over TCP: non-blocking, close-on-exec, TCP_NODELAY.
//
//   RONDO_TRY(Listening at, listen_at(own_addresses));
//   RONDO_TRY(auto visitor, accept_tcp(at.sockets[0]));   // nullopt: no connection waits
//   RONDO_TRY(Socket socket, connect_tcp(candidates, deadline));
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/socket/address.h"
#include "transport/socket/socket.h"

namespace rondo::net {

// Can reuse an address as soon as its last owner has closed it (SO_REUSEADDR). shared: other
// sockets of this user that are shared too may listen at the same address (SO_REUSEPORT).
Result<Socket> listen_tcp(const SocketAddress& at, bool shared = false);
// One socket per address, all with the same free port. Skips addresses that this host does not have
// (gone, or not ready: IPv6 takes a second to check a new one) if others remain.
struct Listening {
  std::vector<Socket> sockets;
  std::vector<SocketAddress> addresses;  // including the port; the best first
};
Result<Listening> listen_at(std::span<const SocketAddress> addresses);
Result<SocketAddress> local_address(const Socket& socket);

struct Accepted {
  Socket socket;
  SocketAddress peer;
};
// Skips connections that ended in the queue. kSystemError: no descriptors or memory left; where
// `*lasts` becomes true, another cause, which will not pass: a system call filter refuses it, or
// the program has closed the listener.
Result<std::optional<Accepted>> accept_tcp(const Socket& listener, bool* lasts = nullptr);

// Begins to connect. Once the socket is writable, connect_outcome() returns 0 or an errno.
// `*no_socket` becomes true if not even a socket could be made.
Result<Socket> start_connect(const SocketAddress& to, bool* no_socket = nullptr);
int connect_outcome(const Socket& socket);

// Tries the candidates in turn, repeatedly with growing pauses, until one answers.
Result<Socket> connect_tcp(std::span<const SocketAddress> candidates, const Deadline& deadline);

}  // namespace rondo::net
