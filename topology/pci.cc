#include "topology/pci.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <vector>

namespace rondo::topology {
namespace {

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

// /sys/devices/pci0000:00/<bridge>/<switch>/.../<device>
PciDistance pci_distance(const std::string& path, const std::string& other) {
  const auto a = parts_of(path), b = parts_of(other);
  std::size_t common = 0;
  while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
  constexpr std::size_t kHostBridge = 3, kPorts = 2;
  if (common < kHostBridge) return PciDistance::kSystem;
  if (common == kHostBridge) return PciDistance::kHostBridge;
  // One switch: an upstream port in common, and a downstream port of each.
  const std::size_t farthest = std::max(a.size(), b.size()) - common;
  return farthest <= kPorts ? PciDistance::kOneSwitch : PciDistance::kSeveralSwitches;
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
