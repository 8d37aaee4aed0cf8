// What a plugin says of a device, and which device a rank takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/nearness.h"
#include "transport/net/net.h"
#include "transport/plugin/abi.h"

namespace rondo::plugin {

struct Device {
  int number = 0;
  std::string name;
  std::string pci_path;  // in /sys; "": of no PCI device
  int memory_kinds = 0;  // abi::MemoryKind
  bool registration_is_global = false;
  bool offloads = false;        // wants kernels of its own on the GPU
  std::uint64_t max_bytes = 0;  // of a message

  bool takes(net::Memory::Kind kind) const;
};

// As the host's graph names its ports.
topology::NicName nic_of(const Device& device);

// Of properties as that version has them.
Device read_device(int number, int version, const void* properties);
// The nearest one, by its PCI address or else by its name; of equally near ones the rank's turn's.
// Null: all offload, or take no memory of the host.
const Device* choose_device(std::span<const Device> devices, const topology::NearNics& near);

}  // namespace rondo::plugin
