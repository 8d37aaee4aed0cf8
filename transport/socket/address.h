// SPDX-License-Identifier: Apache-2.0
// SocketAddress: an IPv4 or IPv6 address with a port, and its text forms.
//
//   RONDO_TRY(HostPort place, parse_host_port("[fe80::1%eth0]:4000"));   // or "node7:4000"
//   RONDO_TRY(auto addresses, resolve(place, AF_UNSPEC));
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rondo::net {

class SocketAddress {
 public:
  SocketAddress() = default;  // no address: family AF_UNSPEC
  static SocketAddress v4(std::span<const unsigned char, 4> ip, std::uint16_t port);
  static SocketAddress v6(std::span<const unsigned char, 16> ip, std::uint16_t port,
                          std::uint32_t scope = 0);
  static SocketAddress any(int family, std::uint16_t port);
  // From a system call. IPv4 in IPv6 (::ffff:1.2.3.4) becomes IPv4; other families: no address.
  static SocketAddress from(const sockaddr* address);

  int family() const { return storage_.plain.sa_family; }
  bool valid() const { return family() != AF_UNSPEC; }
  const sockaddr* raw() const { return &storage_.plain; }
  socklen_t length() const;
  std::span<const unsigned char> ip() const;  // 4 or 16 bytes, in network order
  std::uint16_t port() const;
  SocketAddress with_port(std::uint16_t port) const;
  std::uint32_t scope() const;  // IPv6: interface index on this host; 0: none
  SocketAddress with_scope(std::uint32_t scope) const;
  bool loopback() const;
  bool link_local() const;   // IPv6 fe80::/10: valid on one link, named by the scope
  std::string text() const;  // "10.0.0.1:4000", "[::1]:4000"
  friend bool operator==(const SocketAddress& a, const SocketAddress& b) {
    return a.text() == b.text();
  }

 private:
  union {
    sockaddr plain;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } storage_{};
};

struct HostPort {
  std::string host;  // a name or an address; IPv6 without its brackets
  std::uint16_t port = 0;
};
// "host:port", "1.2.3.4:port" or "[v6]:port", "[v6%interface]:port".
Result<HostPort> parse_host_port(std::string_view text);

// All addresses of the host; may query DNS. family: AF_INET, AF_INET6, or AF_UNSPEC for both.
Result<std::vector<SocketAddress>> resolve(const HostPort& place, int family);

}  // namespace rondo::net
