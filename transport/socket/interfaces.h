// Which addresses of this host other hosts should use.
//
// NCCL_SOCKET_IFNAME has NCCL's grammar: comma-separated prefixes of interface names; a leading '^'
// excludes them, '=' asks for exact names, "^=" excludes exact names. Unset: InfiniBand interfaces
// (ib...), else all but lo, docker and virbr, else docker and virbr, else lo.
// NCCL_SOCKET_FAMILY=AF_INET or AF_INET6 restricts the family. IPv6 link-local addresses count only
// where no other matches: which link they belong to, whoever connects has to find out.
// Cost: one getifaddrs(3), about 50 us.
//
//   RONDO_TRY(auto interfaces, usable_interfaces());
#pragma once

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

// Their addresses, at which this process listens and which it gives to others; the best ten.
Result<std::vector<SocketAddress>> own_addresses();

}  // namespace rondo::net
