// SPDX-License-Identifier: Apache-2.0
#include "topology/cpu_budget.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>

#include "base/process.h"
#include "topology/small_file.h"

namespace rondo::topology {
namespace {

std::optional<int> parse_cpu(std::string_view text) {
  int cpu = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (cpu < 0 || cpu > kMaxCpu) return std::nullopt;
  return cpu;
}

}  // namespace

std::string to_text(const CpuList& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", cpus[first])
                          : fmt::format("{}-{}", cpus[first], cpus[last]);
    first = last + 1;
  }
  return text;
}

std::optional<CpuList> parse_cpu_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  CpuList cpus;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (comma != std::string_view::npos && comma + 1 == text.size()) return std::nullopt;
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const auto dash = item.find('-');
    const auto first = parse_cpu(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_cpu(item.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    if (cpus.size() + static_cast<std::size_t>(*last - *first) > kMaxCpu) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

CpuList read_cpu_list(const std::string& path, const std::string& older) {
  CpuList list = parse_cpu_list(read_small_file(path, 1 << 16).value_or("")).value_or(CpuList{});
  return list.empty() && !older.empty() ? read_cpu_list(older) : list;
}

bool contains(const CpuList& cpus, int cpu) {
  return std::binary_search(cpus.begin(), cpus.end(), cpu);
}

bool contains_all(const CpuList& cpus, const CpuList& part) {
  return std::includes(cpus.begin(), cpus.end(), part.begin(), part.end());
}

namespace {

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (take_until(list, ',') == word) return true;
  }
  return false;
}

// A process's group in one hierarchy.
struct Group {
  bool v2 = false;
  std::string path;         // as in /proc/PID/cgroup
  std::string mount_point;  // of the hierarchy; empty: not mounted
  std::string mount_root;   // the group that the mount point shows
};

// /proc/PID/cgroup: "ID:CONTROLLERS:PATH"; version 2 has id 0 and no controllers.
std::vector<Group> groups_of_process(std::string_view text, std::string_view controller) {
  std::vector<Group> groups;
  for_each_line(text, [&](std::string_view line) {
    const std::string_view id = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    const bool v2 = id == "0" && controllers.empty();
    if (v2 || has_word(controllers, controller)) groups.push_back({v2, std::string(line), "", ""});
    return true;
  });
  return groups;
}

// /proc/self/mountinfo: "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS] - TYPE SOURCE
// SUPEROPTIONS"
void find_mounts(std::string_view text, std::string_view controller, std::vector<Group>& groups) {
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
      if (!v2 && !has_word(tail, controller)) continue;
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

}  // namespace

std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& process,
                                         const std::string& root) {
  std::vector<CgroupFolder> folders;
  const auto membership = read_small_file(root + "/proc/" + process + "/cgroup");
  const auto mounts = read_small_file(root + "/proc/self/mountinfo");
  if (!membership || !mounts) return folders;
  std::vector<Group> groups = groups_of_process(*membership, controller);
  find_mounts(*mounts, controller, groups);
  for (const Group& group : groups) {
    if (group.mount_point.empty()) continue;
    for (std::string folder = relative_folder(group);;) {
      folders.push_back({root + group.mount_point + folder, group.v2});
      if (folder.empty()) break;
      folder.resize(folder.rfind('/'));
    }
  }
  return folders;
}

namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

double quota_of_folder(const std::string& folder, bool v2) {
  double quota = -1;
  double period = -1;
  if (v2) {  // "max 100000" or "150000 100000"
    const auto text = read_small_file(folder + "/cpu.max");
    if (!text || text->starts_with("max")) return kNoQuota;
    char* end = nullptr;
    quota = std::strtod(text->c_str(), &end);
    period = std::strtod(end, nullptr);
  } else {
    quota = static_cast<double>(read_number(folder + "/cpu.cfs_quota_us").value_or(-1));
    if (quota <= 0) return kNoQuota;
    period = static_cast<double>(read_number(folder + "/cpu.cfs_period_us").value_or(100000));
  }
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
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
  double tightest = kNoQuota;
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
