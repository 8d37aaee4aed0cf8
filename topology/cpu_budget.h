// SPDX-License-Identifier: Apache-2.0
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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::topology {

// CpuList: the kernel's numbers of logical CPUs, ascending, without duplicates; and the text form
// that /sys, taskset and cpusets use ("0-3,8").
using CpuList = std::vector<int>;

// Higher numbers are rejected as invalid.
inline constexpr int kMaxCpu = (1 << 16) - 1;

std::string to_text(const CpuList& cpus);  // "": empty list

// nullopt if the text is not such a list; "" and "\n" are the empty list.
std::optional<CpuList> parse_cpu_list(std::string_view text);

// The list of a file of /sys, or else of its older name; empty if neither has one.
CpuList read_cpu_list(const std::string& path, const std::string& older = "");

bool contains(const CpuList& cpus, int cpu);
bool contains_all(const CpuList& cpus, const CpuList& part);  // true for an empty part

// The control groups (v1 and v2) of a process, as folders of the hierarchies that are mounted here.
struct CgroupFolder {
  std::string path;
  bool v2;
};

// The folders of the process's group and of its parents, from the bottom up, in all hierarchies
// that have the controller (v2's has all controllers). `process` is the process's folder in /proc.
// `root` is put before /proc and /sys.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller,
                                         const std::string& process = "self",
                                         const std::string& root = "");

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
