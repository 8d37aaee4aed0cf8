// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/simd/simd_target.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rondo::host {
namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

SimdTarget detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // All features that Highway enables for its AVX2 target.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && has_f16c();
  if (!avx2) return SimdTarget::kPortable;
  const bool avx3 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx3 ? SimdTarget::kAvx3 : SimdTarget::kAvx2;
#else
  return SimdTarget::kPortable;
#endif
}

std::atomic<int> chosen_for_test{-1};

}  // namespace

SimdTarget best_simd_target() {
  static const SimdTarget best = detect();
  return best;
}

SimdTarget current_simd_target() {
  const int chosen = chosen_for_test.load(std::memory_order_relaxed);
  return chosen >= 0 ? static_cast<SimdTarget>(chosen) : best_simd_target();
}

void use_simd_target_for_test(SimdTarget target) {
  chosen_for_test.store(static_cast<int>(target), std::memory_order_relaxed);
}

const char* name(SimdTarget target) {
  switch (target) {
    case SimdTarget::kAvx3:
      return "AVX3";
    case SimdTarget::kAvx2:
      return "AVX2";
    case SimdTarget::kPortable:
      break;
  }
  return "portable";
}

}  // namespace rondo::host
