// Number of CPUs that this process can really use: by its affinity mask and its cgroup's CPU quota.
//
// With more ranks than CPUs, a rank that only spins takes time from its peers, so this number
// decides how waits behave. Cost: one system call and the quota's small files (about 0.02 ms; the
// first call three times that); does not load hwloc. Only the files' paths are cached, because
// affinity and quotas may change: call at initialisation and keep the result.
//
//   const bool crowded = ranks_on_this_host > topology::usable_cores();
#pragma once

#include <cstdint>
#include <string>

#include "topology/cpu_list.h"

namespace rondo::topology {

struct CpuBudget {
  int affinity_cpus;  // logical CPUs in the affinity mask
  double quota_cpus;  // CPUs that the cgroups (v1, v2) grant: CPU time per time; infinity: no limit
  int usable;         // min of both, rounded up, at least 1
};

// `root` is put before /proc and /sys (tests read the files of a simulated machine).
CpuBudget cpu_budget(const std::string& root = "");

int usable_cores();

// The affinity mask of the calling thread; empty if the system call fails.
CpuList affinity_cpus();
// A hash: equal for equal lists.
std::uint64_t id_of(const CpuList& cpus);

// The smallest quota of the process's cgroup and its parents, in CPUs; infinity: no limit.
double cgroup_quota_cpus(const std::string& root = "");

}  // namespace rondo::topology
