// SPDX-License-Identifier: Apache-2.0
// Parts of the probes' kernels: Rondo's own accesses (kernels/cuda/device.h), and waits with a
// timeout, so that no probe leaves a kernel on the device.
#pragma once

#include "calls.h"
#include "kernels/cuda/device.h"

namespace probe {

namespace gpu = rondo::device;
using gpu::Scope;

inline constexpr std::uint64_t kMillisecond = 1'000'000;  // in nanoseconds

__device__ __forceinline__ std::uint64_t clock_cycles() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(now)::"memory");
  return now;
}

// Waits until ready() or until time `end` of the device's clock; returns true if ready.
template <class Ready>
__device__ __forceinline__ bool wait_until(Ready ready, std::uint64_t end) {
  for (;;) {
#pragma unroll 1  // the clock is read outside of it, because that takes longer than most loads
    for (int turn = 0; turn < 64; ++turn)
      if (ready()) return true;
    if (gpu::timer_ns() > end) return false;
  }
}
__device__ __forceinline__ bool wait_for(const std::uint32_t* at, std::uint32_t value,
                                         std::uint64_t end) {
  return wait_until([&] { return gpu::load_relaxed<Scope::kSystem>(at) >= value; }, end);
}

// Runs for `ns` nanoseconds.
[[maybe_unused]] static __global__ void delay(std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  while (gpu::timer_ns() < end) {
  }
}
// Reports that it runs, then waits until *release is not 0, for at most `ns`.
[[maybe_unused]] static __global__ void hold(std::uint32_t* running, const std::uint32_t* release,
                                             std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  if (threadIdx.x != 0) return;
  gpu::add_relaxed<Scope::kSystem>(running, 1u);
  wait_for(release, 1, end);
}
[[maybe_unused]] static __global__ void set_word(std::uint32_t* at, std::uint32_t value) {
  gpu::store_relaxed<Scope::kSystem>(at, value);
}
[[maybe_unused]] static __global__ void add_one(std::uint32_t* at) {
  gpu::store(at, gpu::load(at) + 1);
}
[[maybe_unused]] static __global__ void copy_word(std::uint32_t* to, const std::uint32_t* from) {
  gpu::store(to, gpu::load(from));
}
[[maybe_unused]] static __global__ void nothing() {}

}  // namespace probe
