#include "topology/cpu_features.h"

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
