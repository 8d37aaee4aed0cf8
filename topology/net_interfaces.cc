// SPDX-License-Identifier: Apache-2.0
#include "topology/net_interfaces.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "topology/small_file.h"

namespace rondo::topology {
namespace {

constexpr std::int64_t kArpHardwareLoopback = 772;  // ARPHRD_LOOPBACK

}  // namespace

std::vector<NetInterface> read_net_interfaces(const std::string& root) {
  std::vector<NetInterface> interfaces;
  const std::string folder = root + "/sys/class/net";
  for (const std::string& name : names_in(folder)) {
    const std::string base = folder + "/" + name;
    const auto type = read_number(base + "/type");
    if (!type) continue;  // bonding_masters
    NetInterface one;
    one.name = name;
    one.loopback = *type == kArpHardwareLoopback;
    one.megabits = std::max<std::int64_t>(0, read_number(base + "/speed").value_or(0));
    // A virtio device is below its PCI device, which has the file.
    auto numa = read_number(base + "/device/numa_node");
    if (!numa) numa = read_number(base + "/device/../numa_node");
    one.numa = static_cast<int>(numa.value_or(-1));
    const std::string state = read_small_file(base + "/operstate", 64).value_or("");
    one.up = state.starts_with("up") || (one.loopback && state.starts_with("unknown"));
    interfaces.push_back(std::move(one));
  }
  return interfaces;
}

std::string pci_path(std::string address, const std::string& root) {
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return real_path(root + "/sys/bus/pci/devices/" + address);
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real == nullptr) return "";
  const std::string found = real.get();
  return found.substr(std::min(found.find("/sys/devices/"), found.size()));
}

}  // namespace rondo::topology
