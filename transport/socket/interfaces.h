// Which addresses of this host other hosts should use.
//
// NCCL_SOCKET_IFNAME has NCCL's grammar: comma-separated prefixes of interface names; a leading '^'
// excludes them, '=' asks for exact names, "^=" excludes exact names. Unset: InfiniBand interfaces
// (ib...), else all but lo, docker and virbr, else docker and virbr, else lo. An interface that
// has just come up is not called running for up to a second, though it carries packets: such ones
// come before lo, behind all others.
// NCCL_SOCKET_FAMILY=AF_INET or AF_INET6 restricts the family. IPv6 link-local addresses count only
// where no other matches: the connecting side has to find out which link they belong to.
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

namespace rondo::net {

struct Interface {
  std::string name;
  SocketAddress address;  // port 0
  bool running = true;    // the kernel says that it carries packets
};

// What a peer's addresses are from here: its interfaces' numbers mean nothing on this host, so that
// a link-local address without one is tried on every link of `own` that has such addresses.
std::vector<SocketAddress> on_links(std::span<const SocketAddress> addresses,
                                    std::span<const Interface> own);
// On the links of this host. Asks for them only where there is a link-local address.
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

// The rule itself, for tests: those of `all` that the two variables' texts choose.
std::vector<Interface> choose_interfaces(std::span<const Interface> all, std::string_view ifname,
                                         int family);

// Of this host, by the environment. Never empty: an error says what there is to choose from.
Result<std::vector<Interface>> usable_interfaces();

// Their addresses, at which this process listens and which it gives to others; the best ten. Among
// them is the one from which it reaches `met_at`, where ranks meet: a way that works. Unless the
// two variables leave it out.
Result<std::vector<SocketAddress>> own_addresses(std::span<const SocketAddress> met_at = {});

// The address of this host from which packets to `to` leave, as the routes are now; nothing: none.
std::optional<SocketAddress> address_towards(const SocketAddress& to);

// kInvalidUsage where a rank of several hosts would listen at loopback addresses alone, which other
// hosts do not reach. Not where ranks met at such an address, nor where NCCL_SOCKET_IFNAME names
// lo: then all are on one machine.
Status check_reach(std::span<const SocketAddress> own, std::span<const SocketAddress> met_at);

}  // namespace rondo::net
