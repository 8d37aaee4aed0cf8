// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/devices.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "base/env.h"
#include "base/printable.h"
#include "topology/graph/nearness.h"
#include "topology/net_interfaces.h"
#include "topology/small_file.h"

namespace rondo::verbs {
namespace {

std::string read_text(const std::string& path) {
  std::string text = topology::read_small_file(path, 4096).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (listing == nullptr) return names;
  while (const dirent* entry = ::readdir(listing.get()))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int> numbers(const std::string& folder) {
  std::vector<int> found;
  for (const std::string& name : entries(folder)) {
    int number = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), number).ptr;
    if (end == name.data() + name.size()) found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// "fe80:0000:0000:0000:5054:00ff:fe77:0001"; nullopt if the entry is unused.
std::optional<std::array<std::uint8_t, 16>> parse_gid(const std::string& text) {
  std::array<std::uint8_t, 16> bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return std::nullopt;
  // An unused entry can hold the subnet's prefix; its other half is zero.
  const auto own = bytes.begin() + 8;
  if (std::all_of(own, bytes.end(), [](std::uint8_t byte) { return byte == 0; }))
    return std::nullopt;
  return bytes;
}

// "ACTIVE" of "4: ACTIVE".
std::string after_number(const std::string& text) {
  const auto colon = text.find(": ");
  return printable(colon == std::string::npos ? text : text.substr(colon + 2));
}

Port read_port(const std::string& root, const std::string& device, int number) {
  const std::string of_device = root + "/sys/class/infiniband/" + device;
  const std::string base = fmt::format("{}/ports/{}", of_device, number);
  Port port;
  port.device = printable(device);
  port.number = number;
  port.state = after_number(read_text(base + "/state"));
  port.active = port.state == "ACTIVE";
  port.ethernet = read_text(base + "/link_layer") == "Ethernet";
  port.lid = static_cast<int>(std::strtol(read_text(base + "/lid").c_str(), nullptr, 16));
  port.gigabits = std::strtod(read_text(base + "/rate").c_str(), nullptr);  // "100 Gb/sec (4X EDR)"
  port.software = topology::real_path(of_device + "/device").empty() ||
                  !read_text(of_device + "/parent").empty();
  for (const int index : numbers(base + "/gids")) {
    const auto bytes = parse_gid(read_text(fmt::format("{}/gids/{}", base, index)));
    if (!bytes) continue;
    const std::string type = read_text(fmt::format("{}/gid_attrs/types/{}", base, index));
    port.gids.push_back({index, *bytes, type == "RoCE v2"});
  }
  return port;
}

}  // namespace

bool Gid::is_ipv4() const {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(bytes.data(), kMapped, sizeof(kMapped)) == 0;
}

bool Gid::is_link_local() const {
  if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string Gid::text() const {
  char buffer[INET6_ADDRSTRLEN] = "";
  if (is_ipv4()) return inet_ntop(AF_INET, &bytes[12], buffer, sizeof(buffer));
  return inet_ntop(AF_INET6, bytes.data(), buffer, sizeof(buffer));
}

std::string address_text(const Endpoint& endpoint) {
  if (!endpoint.ethernet) return fmt::format("lid {}", endpoint.lid);
  return Gid{.bytes = endpoint.gid}.text();
}

std::string Port::name() const { return fmt::format("{}:{}", device, number); }

std::vector<Port> read_ports(const std::string& root) {
  const std::string folder = root + "/sys/class/infiniband";
  std::vector<Port> ports;
  for (const std::string& device : entries(folder))
    for (const int number : numbers(folder + "/" + device + "/ports"))
      ports.push_back(read_port(root, device, number));
  return ports;
}

Unusable unusable(const Port& port) {
  if (!port.active)
    return {fmt::format("is {}, not ACTIVE", port.state.empty() ? "in no known state" : port.state),
            port.ethernet ? "ip link set its interface up (`rdma link` names it), check its cable"
                          : "check its cable, and that a subnet manager runs (`sminfo`)"};
  if (port.ethernet && port.gids.empty())
    return {"has no GID, so that no peer can address it",
            "give its interface an address (`rdma link` names the interface)"};
  if (!port.ethernet && port.lid == 0)
    return {"has no LID, so that no peer can address it",
            "start a subnet manager (opensm), or find out why it does not reach this port"};
  return {};
}

std::string list_ports(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) {
    text += fmt::format("{}{} ({}, {}", text.empty() ? "" : ", ", port.name(),
                        port.ethernet ? "RoCE" : "InfiniBand", port.state);
    if (port.gigabits > 0) text += fmt::format(", {:g} Gb/s", port.gigabits);
    text += ')';
  }
  return text;
}

namespace {

struct Range {
  const char* name;
  int minimum, maximum;
  const char* usual;
};
constexpr Range kTrafficClass{"NCCL_IB_TC", 0, 255, "0, or what the fabric's administrator says"};
constexpr Range kServiceLevel{"NCCL_IB_SL", 0, 15, "0, or what the fabric's administrator says"};
constexpr Range kTimeout{"NCCL_IB_TIMEOUT", 0, 31, "20: 4.3 seconds; 0 waits without limit"};
constexpr Range kRetries{"NCCL_IB_RETRY_CNT", 0, 7, "7"};
constexpr Range kQueuePairs{"NCCL_IB_QPS_PER_CONNECTION", 1, kMaxQueuePairs, "1 to 4"};
constexpr Range kGidIndex{"NCCL_IB_GID_INDEX", -1, 255, "-1: Rondo chooses"};
constexpr Range kRelaxed{"NCCL_IB_PCI_RELAXED_ORDERING", 0, 2, "2: where the device can"};

Result<int> read(const Range& range) {
  const std::int64_t value = env::get_int(range.name);
  if (value < range.minimum || value > range.maximum)
    return fail(StatusCode::kInvalidUsage, "{}={} is not in {}..{}; usual is {}", range.name, value,
                range.minimum, range.maximum, range.usual);
  return static_cast<int>(value);
}

int preference(const Gid& gid) {
  return (gid.is_link_local() ? 0 : 4) + (gid.roce_v2 ? 2 : 0) + (gid.is_ipv4() ? 1 : 0);
}

}  // namespace

Result<Options> Options::from_environment() {
  Options options;
  options.hca = env::get_string("NCCL_IB_HCA");
  RONDO_TRY(options.gid_index, read(kGidIndex));
  RONDO_TRY(options.traffic_class, read(kTrafficClass));
  RONDO_TRY(options.service_level, read(kServiceLevel));
  RONDO_TRY(options.timeout, read(kTimeout));
  RONDO_TRY(options.retries, read(kRetries));
  RONDO_TRY(options.queue_pairs, read(kQueuePairs));
  RONDO_TRY(const int relaxed, read(kRelaxed));
  options.relaxed_ordering = relaxed != 0;
  return options;
}

Result<std::vector<Port>> choose_ports(const std::vector<Port>& all, std::string_view hca) {
  if (all.empty())
    return fail(StatusCode::kInvalidUsage,
                "there is no RDMA device on this host (/sys/class/infiniband has none): check that "
                "the NIC's driver is loaded, or use NCCL_NET=Socket");
  RONDO_TRY(const topology::NicFilter filter, topology::NicFilter::parse(hca));
  for (const topology::NicFilter::Name& name : filter.names()) {
    const bool found = std::any_of(all.begin(), all.end(), [&](const Port& port) {
      return filter.fits(name, port.device, port.number);
    });
    if (!found && !filter.excludes())
      return fail(StatusCode::kInvalidUsage,
                  "NCCL_IB_HCA='{}': {} fits none of this host's ports: {}", hca, name.device,
                  list_ports(all));
  }
  std::vector<Port> chosen, admitted;
  for (const Port& port : all) {
    if (!filter.admits(port.device, port.number)) continue;
    admitted.push_back(port);
    admitted.back().rail = static_cast<int>(admitted.size()) - 1;
  }
  if (admitted.empty())
    return fail(StatusCode::kInvalidUsage, "NCCL_IB_HCA='{}' excludes all of this host's ports: {}",
                hca, list_ports(all));
  for (const Port& port : admitted)
    if (unusable(port).why.empty()) chosen.push_back(port);
  if (!chosen.empty()) return chosen;
  const Unusable reason = unusable(admitted.front());
  return fail(StatusCode::kSystemError, "no RDMA port can be used: {} {}: {} (all: {})",
              admitted.front().name(), reason.why, reason.remedy, list_ports(all));
}

Result<std::vector<Port>> worth_it(const std::vector<Port>& ports, std::uint64_t lockable) {
  if (lockable < kLeastLocked)
    return fail(StatusCode::kInvalidUsage,
                "this process may lock {} bytes, which its buffers may exceed: raise the limit "
                "(ulimit -l unlimited), or force RDMA with NCCL_NET=IB",
                lockable);
  std::vector<Port> left;
  for (const Port& port : ports)
    if (!port.software) left.push_back(port);
  if (!left.empty()) return left;
  return fail(StatusCode::kInvalidUsage,
              "there is only soft-RoCE ({}), which is slower than TCP over the same interface; "
              "NCCL_NET=IB selects it",
              list_ports(ports));
}

Result<Gid> choose_gid(const Port& port, int wanted_index) {
  std::string there;
  for (const Gid& gid : port.gids) {
    if (gid.index == wanted_index) return gid;
    there += fmt::format("{}{} ({}{})", there.empty() ? "" : ", ", gid.index, gid.text(),
                         gid.roce_v2 ? ", RoCE v2" : "");
  }
  if (wanted_index >= 0)
    return fail(StatusCode::kInvalidUsage,
                "GID {} of {} (NCCL_IB_GID_INDEX) is empty; it has: {}; unset NCCL_IB_GID_INDEX to "
                "let Rondo choose",
                wanted_index, port.name(), there.empty() ? "none" : there);
  if (port.gids.empty())
    return fail(StatusCode::kSystemError, "{} {}: {}", port.name(), "has no GID",
                "give its interface an address");
  if (!port.ethernet) return port.gids.front();
  return *std::max_element(port.gids.begin(), port.gids.end(), [](const Gid& a, const Gid& b) {
    return preference(a) < preference(b);
  });
}

std::vector<Port> nearest_ports(const std::vector<Port>& ports, const topology::NearNics& near) {
  const auto is_port = [](const Port& port, const topology::NicName& nic) {
    return topology::is_same({.device = port.device, .port = port.number}, nic);
  };
  std::vector<Port> nearest = topology::nearest_of(ports, near, is_port);
  nearest.resize(std::min(nearest.size(), kMaxRails));
  return nearest;
}

std::vector<RailMatch> match_rails(const LinkEnd& theirs, const std::vector<Port>& own) {
  const auto fit = [&](std::size_t t, std::size_t o) {
    return theirs.rails[t].pairs.front().ethernet == own[o].ethernet;
  };
  std::vector<RailMatch> matches;
  for (std::size_t t = 0; t < theirs.rails.size(); ++t)
    for (std::size_t o = 0; o < own.size(); ++o)
      if (own[o].rail == theirs.rails[t].number && fit(t, o)) matches.push_back({t, o});
  if (!matches.empty()) return matches;
  for (std::size_t i = 0; i < std::min(theirs.rails.size(), own.size()); ++i)
    if (fit(i, i)) matches.push_back({i, i});
  return matches;
}

}  // namespace rondo::verbs
