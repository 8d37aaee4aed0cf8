// Listening, accepting and connecting over TCP: non-blocking, close-on-exec, no delay (Nagle).
//
//   RONDO_TRY(Socket door, listen_everywhere(0));
//   RONDO_TRY(auto visitor, accept_tcp(door));            // nothing where nobody waits
//   RONDO_TRY(Socket socket, connect_tcp(candidates, patience));
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "transport/socket/address.h"
#include "transport/socket/patience.h"
#include "transport/socket/socket.h"

namespace rondo::net {

// The address may be taken at once after its last owner closed it (SO_REUSEADDR).
Result<Socket> listen_tcp(const SocketAddress& at);
// On all addresses of both families; IPv4 alone where the kernel has no IPv6. Port 0: any.
Result<Socket> listen_everywhere(std::uint16_t port);
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
Result<Socket> connect_tcp(std::span<const SocketAddress> candidates, const Patience& patience);

}  // namespace rondo::net
