// SPDX-License-Identifier: Apache-2.0
// The emulated device's table of CUDA calls (base/gpu.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/gpu.h"
#include "kernels/cuda/kernels.h"

namespace rondo::simt {

// Launches of this process so far, for tests that check how a result was made.
struct LaunchCounts {
  std::atomic<std::uint64_t> launches{0};
  std::atomic<unsigned> largest_grid{0};
};
LaunchCounts& launch_counts();

// The devices on which this process has a context: those that were current in calls of the runtime
// that make one. On a real GPU each takes some hundred MiB.
std::vector<int> devices_with_context();

// Counts this process's calls of one function of the table.
struct CallCount {
  explicit CallCount(const char* call);
  const char* const name;
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> allowed{~std::uint64_t{0}};  // calls until they fail,
  std::atomic<std::uint64_t> refused{0};                  // and how many do then
  CallCount* const next;
};
const CallCount* call_counts();  // all functions of the table; the last `next` is nullptr
// Makes calls of this name (a member of GpuApi) fail in this process after `allowed` more, as with
// an old driver or a full switch: `refused` of them, and then no more.
inline constexpr std::uint64_t kAllCalls = ~std::uint64_t{0};
void refuse_call(std::string_view name, std::uint64_t allowed = 0,
                 std::uint64_t refused = kAllCalls);

// `kernel_of` returns the caller's kernels by number; all callers must pass the same function.
const GpuApi& gpu_table(const cuda::KernelEntry& (*kernel_of)(int kernel));

}  // namespace rondo::simt
