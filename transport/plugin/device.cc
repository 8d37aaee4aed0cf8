#include "transport/plugin/device.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/printable.h"

namespace rondo::plugin {
namespace {

// Results of test() count bytes in an int.
constexpr std::uint64_t kMost = std::numeric_limits<int>::max();

std::string text_of(const char* from_plugin) {
  return from_plugin == nullptr ? "" : printable(from_plugin);
}

Device device_of(int number, const abi::PropertiesHead& head, const abi::PropertiesPort& port,
                 std::uint64_t most_bytes) {
  return {number,
          text_of(head.name),
          head.pci_path == nullptr ? "" : head.pci_path,
          head.memory_kinds,
          head.registration_is_global != 0,
          port.offload_type != 0,
          most_bytes == 0 ? kMost : std::min(most_bytes, kMost)};
}

template <class Since9>
Device device_since_9(int number, const void* properties) {
  const auto& read = *static_cast<const Since9*>(properties);
  return device_of(number, read.head, read.port, read.most_bytes);
}

}  // namespace

bool Device::takes(net::Memory::Kind kind) const {
  switch (kind) {
    case net::Memory::Kind::kHost:
      return (memory_kinds & abi::kHost) != 0;
    case net::Memory::Kind::kDevice:
      return (memory_kinds & abi::kCuda) != 0;
    case net::Memory::Kind::kDmabuf:
      return (memory_kinds & abi::kDmabuf) != 0;
  }
  return false;
}

Device read_device(int number, int version, const void* properties) {
  if (version >= 12) return device_since_9<abi::Properties12>(number, properties);
  if (version >= 9) return device_since_9<abi::Properties9>(number, properties);
  const auto& read = *static_cast<const abi::Properties8*>(properties);
  return device_of(number, read.head, read.port, kMost);
}

int numa_node_of(const std::string& pci_path) {
  int node = -1;
  if (!pci_path.empty()) std::ifstream(pci_path + "/numa_node") >> node;
  return node;
}

const Device* choose_device(std::span<const Device> devices, int node, int rank) {
  std::vector<const Device*> near, all;
  for (const Device& device : devices) {
    if (device.offloads || !device.takes(net::Memory::Kind::kHost)) continue;
    all.push_back(&device);
    if (node >= 0 && numa_node_of(device.pci_path) == node) near.push_back(&device);
  }
  const auto& from = near.empty() ? all : near;
  return from.empty() ? nullptr : from[static_cast<std::size_t>(rank) % from.size()];
}

}  // namespace rondo::plugin
