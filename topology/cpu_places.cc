// SPDX-License-Identifier: Apache-2.0
#include "topology/cpu_places.h"

#include <algorithm>
#include <cassert>

#include "topology/small_file.h"

namespace rondo::topology {
namespace {

std::string folder_of(const std::string& system, int cpu) {
  return system + "/cpu/cpu" + std::to_string(cpu);
}

// The file of the CPUs that share the cache of the highest level.
std::string last_cache_file(const std::string& folder) {
  std::string file;
  std::int64_t highest = 0;
  for (int index = 0;; ++index) {
    const std::string cache = folder + "/cache/index" + std::to_string(index);
    const auto level = read_number(cache + "/level");
    if (!level) return file;
    if (*level <= highest) continue;
    highest = *level;
    file = cache + "/shared_cpu_list";
  }
}

void name_group(std::vector<CpuPlace>& places, const CpuList& group, std::uint16_t CpuPlace::*of) {
  for (const int cpu : group)
    if (static_cast<std::size_t>(cpu) < places.size())
      places[static_cast<std::size_t>(cpu)].*of = static_cast<std::uint16_t>(group.front());
}

}  // namespace

std::vector<CpuPlace> cpu_places(const CpuList& cpus, const std::string& root) {
  std::vector<CpuPlace> places(cpus.empty() ? 0 : static_cast<std::size_t>(cpus.back()) + 1);
  assert(std::is_sorted(cpus.begin(), cpus.end()));
  const std::string system = root + "/sys/devices/system";
  for (const int cpu : cpus) {
    const CpuPlace& place = places[static_cast<std::size_t>(cpu)];
    const std::string folder = folder_of(system, cpu);
    if (place.core == CpuPlace::kUnknown)
      name_group(places,
                 read_cpu_list(folder + "/topology/core_cpus_list",
                               folder + "/topology/thread_siblings_list"),
                 &CpuPlace::core);
    if (place.cache == CpuPlace::kUnknown)
      name_group(places, read_cpu_list(last_cache_file(folder)), &CpuPlace::cache);
  }
  for (const int node : read_cpu_list(system + "/node/online"))
    name_group(places, read_cpu_list(system + "/node/node" + std::to_string(node) + "/cpulist"),
               &CpuPlace::node);
  return places;
}

}  // namespace rondo::topology
