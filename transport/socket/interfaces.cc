#include "transport/socket/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/env.h"

namespace rondo::net {
namespace {

Result<std::vector<Interface>> all_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return fail_errno(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_RUNNING) == 0) continue;
    const auto address = SocketAddress::from(entry->ifa_addr);
    if (address.valid()) all.push_back({entry->ifa_name, address});
  }
  return all;
}

std::vector<Interface> admitted(std::span<const Interface> all, std::string_view filter) {
  const auto rule = InterfaceFilter::parse(filter);
  std::vector<Interface> kept;
  for (const Interface& one : all)
    if (rule.admits(one.name)) kept.push_back(one);
  return kept;
}

}  // namespace

InterfaceFilter InterfaceFilter::parse(std::string_view text) {
  InterfaceFilter filter;
  if (filter.exclude_ = text.starts_with('^'); filter.exclude_) text.remove_prefix(1);
  if (filter.exact_ = text.starts_with('='); filter.exact_) text.remove_prefix(1);
  while (!text.empty()) {
    const auto name = text.substr(0, text.find(','));
    if (!name.empty()) filter.names_.emplace_back(name);
    text.remove_prefix(std::min(text.size(), name.size() + 1));
  }
  return filter;
}

bool InterfaceFilter::admits(std::string_view name) const {
  const bool named = std::any_of(names_.begin(), names_.end(), [&](const std::string& one) {
    return exact_ ? name == one : name.starts_with(one);
  });
  return named != exclude_;
}

Result<int> parse_family(std::string_view text) {
  if (text.empty()) return int{AF_UNSPEC};
  if (text == "AF_INET") return int{AF_INET};
  if (text == "AF_INET6") return int{AF_INET6};
  return fail(Status::kInvalidUsage, "NCCL_SOCKET_FAMILY='{}' is not AF_INET or AF_INET6", text);
}

std::vector<Interface> choose_interfaces(std::span<const Interface> all, std::string_view ifname,
                                         int family) {
  for (const bool link_local : {false, true}) {
    std::vector<Interface> of_family;
    for (const Interface& one : all)
      if ((family == AF_UNSPEC || one.address.family() == family) &&
          one.address.link_local() == link_local)
        of_family.push_back(one);
    for (const std::string_view tier : {"ib", "^lo,docker,virbr", "docker,virbr", "lo"})
      if (auto found = admitted(of_family, ifname.empty() ? tier : ifname); !found.empty())
        return found;
  }
  return {};
}

std::vector<SocketAddress> on_links(std::span<const SocketAddress> addresses,
                                    std::span<const Interface> own) {
  std::vector<SocketAddress> reachable;
  for (const SocketAddress& address : addresses) {
    if (!address.link_local() || address.scope() != 0) {
      reachable.push_back(address);
      continue;
    }
    for (const Interface& one : own)
      if (one.address.link_local()) reachable.push_back(address.with_scope(one.address.scope()));
  }
  return reachable;
}

std::vector<SocketAddress> on_links_here(std::span<const SocketAddress> addresses) {
  const bool any = std::any_of(addresses.begin(), addresses.end(),
                               [](const SocketAddress& one) { return one.link_local(); });
  if (any)
    if (const auto own = all_interfaces(); own.ok()) return on_links(addresses, *own);
  return {addresses.begin(), addresses.end()};
}

Result<std::vector<Interface>> usable_interfaces() {
  const std::string ifname = env::get_string("NCCL_SOCKET_IFNAME");
  RONDO_TRY(const int family, parse_family(env::get_string("NCCL_SOCKET_FAMILY")));
  RONDO_TRY(const auto all, all_interfaces());
  auto chosen = choose_interfaces(all, ifname, family);
  if (!chosen.empty()) return chosen;
  std::string there;
  for (const Interface& one : all) there += fmt::format(" {} {}", one.name, one.address.text());
  return fail(Status::kInvalidUsage,
              "no network interface with an address matches NCCL_SOCKET_IFNAME='{}' and "
              "NCCL_SOCKET_FAMILY='{}'; those that are up:{}",
              ifname, env::get_string("NCCL_SOCKET_FAMILY"), there.empty() ? " none" : there);
}

Result<std::vector<SocketAddress>> own_addresses() {
  constexpr std::size_t kMost = 10;
  RONDO_TRY(const auto interfaces, usable_interfaces());
  std::vector<SocketAddress> addresses;
  for (const Interface& one : interfaces)
    if (addresses.size() < kMost) addresses.push_back(one.address);
  return addresses;
}

}  // namespace rondo::net
