// SPDX-License-Identifier: Apache-2.0
// deal_cpus(): which CPUs each rank of a job on this host may use, for `rondo run --bind`.
//
// Guarantees: ranks get neighbouring cores in rank order, so neighbours in rank are neighbours on
// the machine; every rank gets at least one CPU that this process may use. Shares differ by one
// core at most; within that, they do not cross the border of a NUMA node, or of an L3 cache, if
// the numbers allow it. Pure functions. Cost: linear in the CPUs.
//
//   RONDO_TRY(const HostTopology host, discover());
//   job.cpus = deal_cpus(host, affinity_cpus(), Binding::kShare, 4);  // 64 cores: 16 each
#pragma once

#include <vector>

#include "topology/cpu_budget.h"
#include "topology/host_topology.h"

namespace rondo::topology {

enum class Binding {
  kNone,
  kShare,      // cores / ranks each; hardware threads if there are more ranks than physical cores
  kCores,      // one physical core each, the first of its share, with all its hardware threads
  kNumaNodes,  // one NUMA node each
};

// True if a share for each of several ranks helps: there are at least as many CPUs as ranks, and
// the cgroup grants the time of all of them. Otherwise ranks must take turns, and the kernel
// chooses better where: a rank that is bound waits for its core while another is idle. A rank also
// counts its usable cores by its own mask, and could not know how many ranks share the quota.
bool may_bind_shares(const CpuBudget& budget, int ranks);

// allowed: the CPUs that are dealt. The CPUs of each rank, ascending; an empty vector: do not bind
// (kNone, and kShare with more ranks than CPUs). With kCores and kNumaNodes, several ranks share
// one if there are more ranks than cores or nodes.
std::vector<CpuList> deal_cpus(const HostTopology& host, const CpuList& allowed, Binding binding,
                               int ranks);

}  // namespace rondo::topology
