#include "topology/cache_sizes.h"

#include <atomic>
#include <memory>

#include "base/env.h"
#include "topology/cpu_budget.h"
#include "topology/small_file.h"

namespace rondo::topology {

namespace {

CacheSizes read_caches_of(int cpu, const std::string& root) {
  constexpr int kMaxCaches = 8;
  const std::string folder =
      root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
  CacheSizes sizes;
  for (int index = 0; index < kMaxCaches; ++index) {
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

}  // namespace

CacheSizes cache_sizes(const std::string& root) {
  // Cached for the first CPU only: almost always all communicators ask about the same CPU.
  struct Known {
    int cpu;
    CacheSizes sizes;
  };
  static std::atomic<const Known*> known{nullptr};
  const CpuList cpus = affinity_cpus();
  const int cpu = cpus.empty() ? 0 : cpus.front();
  if (!root.empty()) return read_caches_of(cpu, root);
  const Known* last = known.load(std::memory_order_acquire);
  if (last != nullptr && last->cpu == cpu) return last->sizes;
  const CacheSizes sizes = read_caches_of(cpu, root);
  if (last == nullptr) {
    auto made = std::make_unique<const Known>(Known{cpu, sizes});
    if (known.compare_exchange_strong(last, made.get())) (void)made.release();
  }
  return sizes;
}

}  // namespace rondo::topology
