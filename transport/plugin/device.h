// SPDX-License-Identifier: Apache-2.0
// The properties of a plugin's device, and the choice of the device for a rank.
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
  std::string pci_path;  // in /sys; "": not a PCI device
  int memory_kinds = 0;  // abi::MemoryKind
  bool registration_is_global = false;
  bool offloads = false;        // requires its own kernels on the GPU
  std::uint64_t max_bytes = 0;  // max size of a message

  bool takes(net::Memory::Kind kind) const;
};

// The name of the device as a port in the host's graph.
topology::NicName nic_of(const Device& device);

// `properties`: in the layout of `version`.
Device read_device(int number, int version, const void* properties);
// The nearest device, by its PCI address or else by its name; equally near ones are distributed
// over the ranks. Null: all devices offload, or none supports host memory.
const Device* choose_device(std::span<const Device> devices, const topology::NearNics& near);

}  // namespace rondo::plugin
