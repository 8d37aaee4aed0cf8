// How many CPUs this process may really use: its affinity mask and its cgroup's CPU quota.
//
// With more ranks than CPUs a rank that only spins wastes its peers' time, so waits ask this before
// they choose how to wait. Cost: one system call and the quota's small files (about 0.02 ms; the
// first time three times that); does not load hwloc. Only where the files are is cached, because
// affinity and quotas may change: ask at initialisation and keep the answer.
//
//   const bool crowded = ranks_on_this_host > topology::usable_cores();
#pragma once

#include <cstdint>
#include <string>

#include "topology/cpu_list.h"

namespace rondo::topology {

struct CpuBudget {
  int affinity_cpus;  // logical CPUs in the affinity mask
  double quota_cpus;  // CPU time per time that the cgroups (v1, v2) grant; infinity where unlimited
  int usable;         // min of both, rounded up, at least 1
};

// `root` stands before /proc and /sys (tests read the files of a pretended machine).
CpuBudget cpu_budget(const std::string& root = "");

int usable_cores();

// The affinity mask of the calling thread; empty where the kernel refuses to tell.
CpuList affinity_cpus();
// Equal for equal lists.
std::uint64_t id_of(const CpuList& cpus);

// The tightest quota of the process's cgroup and the groups above it; infinity where there is none.
double cgroup_quota_cpus(const std::string& root = "");

}  // namespace rondo::topology
