// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/env.h"
#include "transport/socket/tcp.h"

namespace rondo::net {
namespace {

Result<std::vector<Interface>> all_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return fail_errno(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    const auto address = SocketAddress::from(entry->ifa_addr);
    const bool running = (entry->ifa_flags & IFF_RUNNING) != 0;
    if (address.valid()) all.push_back({entry->ifa_name, address, running});
  }
  return all;
}

// Each row applies if the rows before match no interface.
struct Tier {
  std::string_view filter;
  bool running;
};
constexpr Tier kTiers[] = {
    {"ib", true}, {"^lo,docker,virbr", true}, {"docker,virbr", true}, {"^lo,docker,virbr", false}};

std::vector<Interface> admitted(std::span<const Interface> all, const Tier& tier) {
  const auto rule = InterfaceFilter::parse(tier.filter);
  std::vector<Interface> kept;
  for (const Interface& one : all)
    if (one.running == tier.running && rule.admits(one.name)) kept.push_back(one);
  return kept;
}

// Without NCCL_SOCKET_IFNAME. lo follows the interfaces that do not run yet: they may never run.
std::vector<Interface> best_of(std::span<const Interface> all) {
  std::vector<Interface> best;
  for (const Tier& tier : kTiers) {
    best = admitted(all, tier);
    if (!best.empty() && tier.running) return best;
  }
  const auto loopback = admitted(all, {"lo", true});
  best.insert(best.end(), loopback.begin(), loopback.end());
  return best;
}

std::vector<Interface> named(std::span<const Interface> all, std::string_view ifname) {
  auto found = admitted(all, {ifname, true});
  return found.empty() ? admitted(all, {ifname, false}) : found;
}

bool all_loopback(std::span<const SocketAddress> addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](const SocketAddress& one) { return one.loopback(); });
}

// Whether the two variables admit the address.
bool is_admitted(const SocketAddress& address) {
  const auto family = parse_family(env::get_string("NCCL_SOCKET_FAMILY"));
  if (!family.ok() || (*family != AF_UNSPEC && *family != address.family())) return false;
  const std::string ifname = env::get_string("NCCL_SOCKET_IFNAME");
  if (ifname.empty()) return true;
  const auto all = all_interfaces();
  const auto rule = InterfaceFilter::parse(ifname);
  return all.ok() && std::any_of(all->begin(), all->end(), [&](const Interface& one) {
           return one.address == address && rule.admits(one.name);
         });
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
  return fail(StatusCode::kInvalidUsage, "NCCL_SOCKET_FAMILY='{}' is not AF_INET or AF_INET6",
              text);
}

std::vector<Interface> choose_interfaces(std::span<const Interface> all, std::string_view ifname,
                                         int family) {
  for (const bool link_local : {false, true}) {
    std::vector<Interface> of_family;
    for (const Interface& one : all)
      if ((family == AF_UNSPEC || one.address.family() == family) &&
          one.address.link_local() == link_local)
        of_family.push_back(one);
    auto found = ifname.empty() ? best_of(of_family) : named(of_family, ifname);
    if (!found.empty()) return found;
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
    for (const bool running : {true, false})
      for (const Interface& one : own)
        if (one.address.link_local() && one.running == running)
          reachable.push_back(address.with_scope(one.address.scope()));
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
  return fail(StatusCode::kInvalidUsage,
              "no network interface with an address matches NCCL_SOCKET_IFNAME='{}' and "
              "NCCL_SOCKET_FAMILY='{}'; those that are up:{}",
              ifname, env::get_string("NCCL_SOCKET_FAMILY"), there.empty() ? " none" : there);
}

std::string interface_of(const Socket& socket) {
  const auto own = local_address(socket);
  const auto all = all_interfaces();
  if (!own.ok() || !all.ok()) return "";
  const auto of = std::find_if(all->begin(), all->end(), [&](const Interface& one) {
    return std::ranges::equal(one.address.ip(), own->ip());
  });
  return of == all->end() ? "" : of->name;
}

Result<std::vector<SocketAddress>> own_addresses(std::span<const SocketAddress> rendezvous_at) {
  constexpr std::size_t kMax = 10;
  RONDO_TRY(const auto interfaces, usable_interfaces());
  std::vector<SocketAddress> addresses;
  for (const Interface& one : interfaces)
    if (addresses.size() < kMax) addresses.push_back(one.address);
  for (const SocketAddress& place : rendezvous_at) {
    const auto way = address_towards(place);
    if (!way || way->loopback() || !is_admitted(*way) ||
        std::find(addresses.begin(), addresses.end(), *way) != addresses.end())
      continue;
    if (addresses.size() == kMax) addresses.pop_back();
    const bool best = all_loopback(addresses);
    addresses.insert(best ? addresses.begin() : addresses.end(), *way);
  }
  return addresses;
}

// Connecting a datagram socket sends nothing.
std::optional<SocketAddress> address_towards(const SocketAddress& to) {
  const Socket socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to.raw(), to.length()) != 0) return std::nullopt;
  const auto address = local_address(socket);
  if (!address.ok() || !address->valid()) return std::nullopt;
  return address->with_port(0);
}

Status check_reach(std::span<const SocketAddress> own,
                   std::span<const SocketAddress> rendezvous_at) {
  const std::string ifname = env::get_string("NCCL_SOCKET_IFNAME");
  const bool names_lo =
      !ifname.empty() && !ifname.starts_with('^') && InterfaceFilter::parse(ifname).admits("lo");
  if (!all_loopback(own) || all_loopback(rendezvous_at) || names_lo) return ok_status();
  return fail(StatusCode::kInvalidUsage,
              "the ranks are on several hosts, but this rank would listen only at loopback "
              "addresses, which other hosts cannot reach: NCCL_SOCKET_IFNAME='{}' and "
              "NCCL_SOCKET_FAMILY='{}' must allow an interface to the other hosts "
              "(NCCL_SOCKET_IFNAME=lo: all ranks are on this machine)",
              ifname, env::get_string("NCCL_SOCKET_FAMILY"));
}

}  // namespace rondo::net
