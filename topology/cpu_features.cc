// SPDX-License-Identifier: Apache-2.0
#include "topology/cpu_features.h"

#include <atomic>
#include <memory>

#include "base/env.h"
#include "topology/cpu_budget.h"
#include "topology/small_file.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace rondo::topology {
namespace {

constexpr CpuFeature kFeatures[] = {
    {1u << 0, "sse4.2"},   {1u << 1, "avx"},        {1u << 2, "avx2"},        {1u << 3, "fma"},
    {1u << 4, "f16c"},     {1u << 5, "avx512f"},    {1u << 6, "avx512bw"},    {1u << 7, "avx512vl"},
    {1u << 8, "avx512dq"}, {1u << 9, "avx512bf16"}, {1u << 10, "avx512vbmi"}, {1u << 16, "neon"},
    {1u << 17, "sve"},
};

}  // namespace

std::span<const CpuFeature> known_cpu_features() { return kFeatures; }

std::uint32_t detect_cpu_features() {
  std::uint32_t mask = 0;
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  // The builtin accepts only literals.
  if (__builtin_cpu_supports("sse4.2")) mask |= 1u << 0;
  if (__builtin_cpu_supports("avx")) mask |= 1u << 1;
  if (__builtin_cpu_supports("avx2")) mask |= 1u << 2;
  if (__builtin_cpu_supports("fma")) mask |= 1u << 3;
#if defined(__GNUC__) && !defined(__clang__)
  if (__builtin_cpu_supports("f16c")) mask |= 1u << 4;
#else
  if (__builtin_cpu_supports("avx2")) mask |= 1u << 4;  // every CPU with AVX2 has F16C
#endif
  if (__builtin_cpu_supports("avx512f")) mask |= 1u << 5;
  if (__builtin_cpu_supports("avx512bw")) mask |= 1u << 6;
  if (__builtin_cpu_supports("avx512vl")) mask |= 1u << 7;
  if (__builtin_cpu_supports("avx512dq")) mask |= 1u << 8;
  if (__builtin_cpu_supports("avx512bf16")) mask |= 1u << 9;
  if (__builtin_cpu_supports("avx512vbmi")) mask |= 1u << 10;
#elif defined(__aarch64__)
  const unsigned long hwcap = ::getauxval(AT_HWCAP);
  if (hwcap & (1ul << 1)) mask |= 1u << 16;   // ASIMD
  if (hwcap & (1ul << 22)) mask |= 1u << 17;  // SVE
#endif
  return mask;
}

std::string feature_names(std::uint32_t mask) {
  std::string names;
  for (const CpuFeature& feature : kFeatures) {
    if ((mask & feature.bit) == 0) continue;
    if (!names.empty()) names += ' ';
    names += feature.name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace rondo::topology

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
