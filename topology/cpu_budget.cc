#include "topology/cpu_budget.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>

#include "base/process.h"
#include "topology/cgroups.h"
#include "topology/small_file.h"

namespace rondo::topology {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double quota_of_folder(const std::string& folder, bool v2) {
  double quota = -1;
  double period = -1;
  if (v2) {  // "max 100000" or "150000 100000"
    const auto text = read_small_file(folder + "/cpu.max");
    if (!text || text->starts_with("max")) return kUnlimited;
    char* end = nullptr;
    quota = std::strtod(text->c_str(), &end);
    period = std::strtod(end, nullptr);
  } else {
    quota = static_cast<double>(read_number(folder + "/cpu.cfs_quota_us").value_or(-1));
    if (quota <= 0) return kUnlimited;
    period = static_cast<double>(read_number(folder + "/cpu.cfs_period_us").value_or(100000));
  }
  return quota > 0 && period > 0 ? quota / period : kUnlimited;
}

// This process's folders are found once: quotas change, but the process stays in its group.
std::vector<CgroupFolder> own_folders() {
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::optional<std::vector<CgroupFolder>>;
  static std::uint32_t found_in = 0;  // a forked child may have moved to another group
  std::lock_guard lock(mutex);
  if (!kept || found_in != fork_generation()) kept = cgroup_folders("cpu");
  found_in = fork_generation();
  return *kept;
}

}  // namespace

std::uint64_t id_of(const CpuList& cpus) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const int cpu : cpus) hash = (hash ^ static_cast<std::uint64_t>(cpu)) * 0x100000001b3;
  return hash;
}

double cgroup_quota_cpus(const std::string& root) {
  double tightest = kUnlimited;
  const auto folders = root.empty() ? own_folders() : cgroup_folders("cpu", "self", root);
  for (const CgroupFolder& folder : folders)
    tightest = std::min(tightest, quota_of_folder(folder.path, folder.v2));
  return tightest;
}

CpuList affinity_cpus() {
  constexpr int kBitsPerWord = 8 * sizeof(unsigned long);
  unsigned long words[(kMaxCpu + 1) / kBitsPerWord] = {};
  CpuList cpus;
  if (::sched_getaffinity(0, sizeof words, reinterpret_cast<cpu_set_t*>(words)) != 0) return cpus;
  int first = 0;
  for (const unsigned long word : words) {
    for (unsigned long rest = word; rest != 0; rest &= rest - 1) {
      cpus.push_back(first + std::countr_zero(rest));
    }
    first += kBitsPerWord;
  }
  return cpus;
}

CpuBudget cpu_budget(const std::string& root) {
  CpuBudget budget{};
  budget.affinity_cpus = static_cast<int>(affinity_cpus().size());
  if (budget.affinity_cpus == 0) {
    budget.affinity_cpus = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  }
  budget.quota_cpus = cgroup_quota_cpus(root);
  const double cpus = std::min<double>(budget.affinity_cpus, std::ceil(budget.quota_cpus));
  budget.usable = std::max(1, static_cast<int>(cpus));
  return budget;
}

int usable_cores() { return cpu_budget().usable; }

}  // namespace rondo::topology
