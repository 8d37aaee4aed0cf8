// SPDX-License-Identifier: Apache-2.0
// deal_cpus(): which CPUs each rank of a job on this host may use, for `rondo run --bind`.
//
// Ranks get blocks of neighbouring physical cores (all hardware threads of each), or whole NUMA
// nodes, in rank order: neighbours in rank are neighbours on the machine. Only CPUs that this
// process may use are dealt. If there are more ranks than cores or nodes, several ranks share one;
// if there are fewer, the blocks differ by one core at most. Pure function.
//
//   const auto cpus = deal_cpus(host, topology::affinity_cpus(), Binding::kCores, 4);
#pragma once

#include <vector>

#include "topology/host_topology.h"

namespace rondo::cli {

enum class Binding { kNone, kCores, kNumaNodes };

// The CPUs of each rank; none is empty.
std::vector<topology::CpuList> deal_cpus(const topology::HostTopology& host,
                                         const topology::CpuList& allowed, Binding binding,
                                         int ranks);

}  // namespace rondo::cli
