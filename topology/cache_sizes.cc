#include "topology/cache_sizes.h"

#include "base/env.h"
#include "topology/cpu_budget.h"
#include "topology/small_file.h"

namespace rondo::topology {

CacheSizes cache_sizes(const std::string& root) {
  constexpr int kMostCaches = 8;
  const CpuList cpus = affinity_cpus();
  const int cpu = cpus.empty() ? 0 : cpus.front();
  const std::string folder =
      root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
  CacheSizes sizes;
  for (int index = 0; index < kMostCaches; ++index) {
    const std::string cache = folder + std::to_string(index);
    const auto level = read_number(cache + "/level");
    if (!level) break;
    std::string size = read_small_file(cache + "/size", 64).value_or("");
    while (!size.empty() && size.back() == '\n') size.pop_back();
    const auto bytes = static_cast<std::uint64_t>(env::parse_bytes(size).value_or(0));
    if (*level == 2) sizes.core_bytes = bytes;
    if (*level == 3) sizes.shared_bytes = bytes;
  }
  return sizes;
}

}  // namespace rondo::topology
