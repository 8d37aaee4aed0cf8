#include "topology/cpu_budget.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "topology/small_file.h"

namespace rondo::topology {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (take_until(list, ',') == word) return true;
  }
  return false;
}

// Where this process stands in one cgroup hierarchy.
struct Group {
  bool v2 = false;
  std::string path;         // as in /proc/self/cgroup
  std::string mount_point;  // of the hierarchy; empty: not mounted here
  std::string mount_root;   // which group the mount point shows
};

// /proc/self/cgroup: "ID:CONTROLLERS:PATH"; version 2 has id 0 and no controllers.
std::vector<Group> groups_of_process(std::string_view text) {
  std::vector<Group> groups;
  for_each_line(text, [&](std::string_view line) {
    const std::string_view id = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    const bool v2 = id == "0" && controllers.empty();
    if (v2 || has_word(controllers, "cpu")) groups.push_back({v2, std::string(line), "", ""});
    return true;
  });
  return groups;
}

// /proc/self/mountinfo: "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS] - TYPE SOURCE
// SUPEROPTIONS"
void find_mounts(std::string_view text, std::vector<Group>& groups) {
  for_each_line(text, [&](std::string_view line) {
    const auto dash = line.find(" - cgroup");
    if (dash == std::string_view::npos) return true;
    std::string_view tail = line.substr(dash + 3);
    const bool v2 = take_until(tail, ' ') == "cgroup2";
    take_until(tail, ' ');
    for (int skipped = 0; skipped < 3; ++skipped) take_until(line, ' ');
    const std::string_view root = take_until(line, ' ');
    const std::string_view point = take_until(line, ' ');
    for (Group& group : groups) {
      if (group.v2 != v2 || !group.mount_point.empty()) continue;
      if (!v2 && !has_word(tail, "cpu")) continue;
      group.mount_point = point;
      group.mount_root = root;
    }
    return true;
  });
}

// The group's folder relative to the mount point. In a container without a cgroup namespace the
// path is the host's, and the mount shows only the part below mount_root.
std::string relative_folder(const Group& group) {
  std::string_view path = group.path;
  const std::string_view root = group.mount_root == "/" ? "" : std::string_view(group.mount_root);
  if (!path.starts_with(root)) return "";
  path.remove_prefix(root.size());
  if (path.find("/..") != std::string_view::npos) return "";
  if (!path.empty() && path.front() != '/') return "";
  return path == "/" ? "" : std::string(path);
}

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

}  // namespace

double cgroup_quota_cpus(const std::string& root) {
  const auto membership = read_small_file(root + "/proc/self/cgroup");
  if (!membership) return kUnlimited;
  std::vector<Group> groups = groups_of_process(*membership);
  if (groups.empty()) return kUnlimited;
  if (const auto mounts = read_small_file(root + "/proc/self/mountinfo")) {
    find_mounts(*mounts, groups);
  }
  double tightest = kUnlimited;
  for (const Group& group : groups) {
    if (group.mount_point.empty()) continue;
    for (std::string folder = relative_folder(group);;) {
      tightest = std::min(tightest, quota_of_folder(root + group.mount_point + folder, group.v2));
      if (folder.empty()) break;
      folder.resize(folder.rfind('/'));
    }
  }
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
