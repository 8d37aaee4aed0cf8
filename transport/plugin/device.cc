// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/device.h"

#include <algorithm>
#include <limits>

#include "base/printable.h"

namespace rondo::plugin {
namespace {

// test() returns the size in an int.
constexpr std::uint64_t kMax = std::numeric_limits<int>::max();

std::string text_of(const char* from_plugin) {
  return from_plugin == nullptr ? "" : printable(from_plugin);
}

Device device_of(int number, const abi::PropertiesHead& head, const abi::PropertiesPort& port,
                 std::uint64_t max_bytes) {
  return {number,
          text_of(head.name),
          head.pci_path == nullptr ? "" : head.pci_path,
          head.memory_kinds,
          head.registration_is_global != 0,
          port.offload_type != 0,
          max_bytes == 0 ? kMax : std::min(max_bytes, kMax)};
}

template <class Since9>
Device device_since_9(int number, const void* properties) {
  const auto& read = *static_cast<const Since9*>(properties);
  return device_of(number, read.head, read.port, read.max_bytes);
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
  return device_of(number, read.head, read.port, kMax);
}

topology::NicName nic_of(const Device& device) {
  const std::string address = device.pci_path.substr(device.pci_path.rfind('/') + 1);
  return {.device = device.name, .bus_id = topology::normal_bus_id(address)};
}

const Device* choose_device(std::span<const Device> devices, const topology::NearNics& near) {
  std::vector<const Device*> usable;
  for (const Device& device : devices)
    if (!device.offloads && device.takes(net::Memory::Kind::kHost)) usable.push_back(&device);
  if (usable.empty()) return nullptr;
  const auto is_port = [](const Device* device, const topology::NicName& nic) {
    return topology::is_same(nic_of(*device), nic);
  };
  return topology::nearest_of(usable, near, is_port).front();
}

}  // namespace rondo::plugin
