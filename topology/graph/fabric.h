// SPDX-License-Identifier: Apache-2.0
// FabricPlace: where a GPU is in an NVLink fabric that joins several hosts (MNNVL): its cluster and
// its clique. GPUs of equal places reach each other's memory over NVLink, whatever their hosts are.
//
// A plain value, sent between ranks. Source: NVIDIA, NVML API Reference Manual,
// nvmlDeviceGetGpuFabricInfoV.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>

namespace rondo::topology {

struct FabricPlace {
  std::array<unsigned char, 16> cluster{};  // its UUID; all 0: none
  std::uint32_t clique = 0;                 // number in the cluster

  bool is_known() const {
    return std::any_of(cluster.begin(), cluster.end(),
                       [](unsigned char byte) { return byte != 0; });
  }
  friend auto operator<=>(const FabricPlace&, const FabricPlace&) = default;
};

}  // namespace rondo::topology
