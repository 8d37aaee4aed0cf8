// SPDX-License-Identifier: Apache-2.0
// Selects the addresses of this host that other hosts should use.
//
// NCCL_SOCKET_IFNAME has NCCL's grammar: comma-separated prefixes of interface names; a leading '^'
// excludes them, '=' asks for exact names, "^=" excludes exact names. Unset: InfiniBand interfaces
// (ib...), else all except lo, docker and virbr, else docker and virbr, else lo. An interface that
// has just come up is not reported as running for up to a second, although it carries packets. Such
// interfaces rank before lo and after all others.
// NCCL_SOCKET_FAMILY=AF_INET or AF_INET6 restricts the family. IPv6 link-local addresses are used
// only if no other address matches: the connecting side has to find out which link they belong to.
// Cost: one getifaddrs(3), about 50 us.
//
//   RONDO_TRY(auto interfaces, usable_interfaces());
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/socket/address.h"
#include "transport/socket/socket.h"

namespace rondo::net {

struct Interface {
  std::string name;
  SocketAddress address;  // port 0
  bool running = true;    // IFF_RUNNING
};

// Makes a peer's addresses usable on this host. The peer's interface indexes mean nothing here, so
// a link-local address without an index is tried on every link of `own` with such addresses.
std::vector<SocketAddress> on_links(std::span<const SocketAddress> addresses,
                                    std::span<const Interface> own);
// The same for all links of this host. Reads the interfaces only if an address is link-local.
std::vector<SocketAddress> on_links_here(std::span<const SocketAddress> addresses);

class InterfaceFilter {
 public:
  static InterfaceFilter parse(std::string_view text);
  bool admits(std::string_view name) const;

 private:
  bool exclude_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

// AF_INET, AF_INET6, or AF_UNSPEC for an empty text.
Result<int> parse_family(std::string_view text);

// The selection rule itself, for tests: the interfaces of `all` that match the two variables.
std::vector<Interface> choose_interfaces(std::span<const Interface> all, std::string_view ifname,
                                         int family);

// The name of the interface that has the socket's own address; empty: unknown.
std::string interface_of(const Socket& socket);

// Of this host, by the environment. Never empty: if none matches, an error lists the choices.
Result<std::vector<Interface>> usable_interfaces();

// The addresses of these interfaces, for listening and for peers; the best ten. Includes the
// address from which this host reaches `rendezvous_at` (the rendezvous), because that path works,
// unless the two variables exclude it.
Result<std::vector<SocketAddress>> own_addresses(std::span<const SocketAddress> rendezvous_at = {});

// The source address of packets from this host to `to`, by the current routes; nullopt: none.
std::optional<SocketAddress> address_towards(const SocketAddress& to);

// For communicators of several hosts. kInvalidUsage if this rank would listen only at loopback
// addresses, which other hosts cannot reach. Allowed if the rendezvous is at such an address, or if
// NCCL_SOCKET_IFNAME names lo: then all ranks are on one machine.
Status check_reach(std::span<const SocketAddress> own,
                   std::span<const SocketAddress> rendezvous_at);

}  // namespace rondo::net
