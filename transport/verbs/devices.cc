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

#include "base/printable.h"
#include "topology/pci.h"
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

}  // namespace rondo::verbs
