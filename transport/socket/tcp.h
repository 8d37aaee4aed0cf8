// Listening, accepting and connecting over TCP: non-blocking, close-on-exec, no delay (Nagle).
//
//   RONDO_TRY(Listening at, listen_at(own_addresses));
//   RONDO_TRY(auto visitor, accept_tcp(at.sockets[0]));   // nothing where nobody waits
//   RONDO_TRY(Socket socket, connect_tcp(candidates, deadline));
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/socket/address.h"
#include "transport/socket/deadline.h"
#include "transport/socket/socket.h"

namespace rondo::net {

// The address may be taken at once after its last owner closed it (SO_REUSEADDR).
Result<Socket> listen_tcp(const SocketAddress& at);
// One socket at each address, all with one free port. Leaves out addresses that this host does not
// have (any more, or yet: IPv6 takes a second to try a new one) while there are others.
struct Listening {
  std::vector<Socket> sockets;
  std::vector<SocketAddress> addresses;  // with the port; the best first
};
Result<Listening> listen_at(std::span<const SocketAddress> addresses);
Result<SocketAddress> local_address(const Socket& socket);

struct Accepted {
  Socket socket;
  SocketAddress peer;
};
// Skips connections that ended in the queue. kSystemError: mostly no descriptors left.
Result<std::optional<Accepted>> accept_tcp(const Socket& listener);

// Begins to connect; when the socket is writable, connect_outcome() says 0 or an errno.
Result<Socket> start_connect(const SocketAddress& to);
int connect_outcome(const Socket& socket);

// Tries the candidates in turn, again and again with growing pauses, until one answers.
Result<Socket> connect_tcp(std::span<const SocketAddress> candidates, const Deadline& deadline);

}  // namespace rondo::net
