// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

namespace rondo::net {

SocketAddress SocketAddress::v4(std::span<const unsigned char, 4> ip, std::uint16_t port) {
  SocketAddress address;
  address.storage_.v4.sin_family = AF_INET;
  address.storage_.v4.sin_port = htons(port);
  std::memcpy(&address.storage_.v4.sin_addr, ip.data(), ip.size());
  return address;
}

SocketAddress SocketAddress::v6(std::span<const unsigned char, 16> ip, std::uint16_t port,
                                std::uint32_t scope) {
  SocketAddress address;
  address.storage_.v6.sin6_family = AF_INET6;
  address.storage_.v6.sin6_port = htons(port);
  address.storage_.v6.sin6_scope_id = scope;
  std::memcpy(&address.storage_.v6.sin6_addr, ip.data(), ip.size());
  return address;
}

SocketAddress SocketAddress::any(int family, std::uint16_t port) {
  const unsigned char zeros[16] = {};
  return family == AF_INET6 ? v6(std::span<const unsigned char, 16>(zeros), port)
                            : v4(std::span<const unsigned char, 4>(zeros, 4), port);
}

SocketAddress SocketAddress::from(const sockaddr* address) {
  SocketAddress copy;
  if (address == nullptr) return copy;
  if (address->sa_family == AF_INET)
    std::memcpy(&copy.storage_.v4, address, sizeof(sockaddr_in));
  else if (address->sa_family == AF_INET6)
    std::memcpy(&copy.storage_.v6, address, sizeof(sockaddr_in6));
  if (copy.family() == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&copy.storage_.v6.sin6_addr))
    return v4(copy.ip().subspan<12, 4>(), copy.port());
  return copy;
}

socklen_t SocketAddress::length() const {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::span<const unsigned char> SocketAddress::ip() const {
  if (family() == AF_INET6)
    return {reinterpret_cast<const unsigned char*>(&storage_.v6.sin6_addr), 16};
  if (family() == AF_INET)
    return {reinterpret_cast<const unsigned char*>(&storage_.v4.sin_addr), 4};
  return {};
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? storage_.v6.sin6_port : storage_.v4.sin_port);
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress copy = *this;
  (family() == AF_INET6 ? copy.storage_.v6.sin6_port : copy.storage_.v4.sin_port) = htons(port);
  return copy;
}

std::uint32_t SocketAddress::scope() const {
  return family() == AF_INET6 ? storage_.v6.sin6_scope_id : 0;
}

SocketAddress SocketAddress::with_scope(std::uint32_t scope) const {
  SocketAddress copy = *this;
  if (family() == AF_INET6) copy.storage_.v6.sin6_scope_id = scope;
  return copy;
}

bool SocketAddress::loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&storage_.v6.sin6_addr);
  return family() == AF_INET && ip()[0] == 127;
}

bool SocketAddress::link_local() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&storage_.v6.sin6_addr);
}

std::string SocketAddress::text() const {
  char buffer[INET6_ADDRSTRLEN] = "";
  if (!valid()) return "(no address)";
  inet_ntop(family(), ip().data(), buffer, sizeof(buffer));
  if (family() == AF_INET) return fmt::format("{}:{}", buffer, port());
  char name[IF_NAMESIZE] = "";
  if (storage_.v6.sin6_scope_id != 0 && if_indextoname(storage_.v6.sin6_scope_id, name) != nullptr)
    return fmt::format("[{}%{}]:{}", buffer, name, port());
  return fmt::format("[{}]:{}", buffer, port());
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return fail(StatusCode::kInvalidArgument,
                "'{}' is not an address: {}; write host:port or [IPv6 address]:port", text, why);
  };
  HostPort place;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) return refuse("the bracket is not closed");
    place.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.starts_with(':')) return refuse("the port is missing");
    rest.remove_prefix(1);
  } else {
    const auto colon = rest.find(':');
    if (colon == std::string_view::npos) return refuse("the port is missing");
    if (rest.find(':', colon + 1) != std::string_view::npos)
      return refuse("an IPv6 address needs brackets");
    place.host = rest.substr(0, colon);
    rest.remove_prefix(colon + 1);
  }
  if (place.host.empty()) return refuse("the host is missing");
  if (place.host.find('\0') != std::string::npos) return refuse("it has a NUL in it");
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), place.port);
  if (error != std::errc() || end != rest.data() + rest.size() || place.port == 0)
    return refuse("the port is not in 1..65535");
  return place;
}

Result<std::vector<SocketAddress>> resolve(const HostPort& place, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(place.host.c_str(), nullptr, &hints, &found); error != 0) {
    return fail(StatusCode::kSystemError, "cannot find the address of host '{}': {}", place.host,
                gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const auto address = SocketAddress::from(entry->ai_addr).with_port(place.port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
      addresses.push_back(address);
  }
  return addresses;
}

}  // namespace rondo::net
