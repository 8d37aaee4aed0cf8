// SPDX-License-Identifier: Apache-2.0
// cpu_places(): which CPUs share a physical core, a last-level cache and a NUMA node.
//
// Cost: one small file of /sys for each core, cache and node, about 10 us each; no hwloc.
//
//   const std::vector<CpuPlace> places = cpu_places(affinity_cpus());
//   if (places[4].core == places[5].core) ...  // hardware threads of one core
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/cpu_budget.h"

namespace rondo::topology {

// Each group is named by its lowest CPU.
struct CpuPlace {
  static constexpr std::uint16_t kUnknown = 0xffff;
  std::uint16_t core = kUnknown, cache = kUnknown, node = kUnknown;
  friend bool operator==(const CpuPlace&, const CpuPlace&) = default;
};
static_assert(kMaxCpu <= CpuPlace::kUnknown);

// By CPU number, up to the highest of `cpus`. What /sys does not say, and all of other CPUs, is
// unknown. `root` is put before /sys (tests read the files of a simulated machine).
std::vector<CpuPlace> cpu_places(const CpuList& cpus, const std::string& root = "");

}  // namespace rondo::topology
