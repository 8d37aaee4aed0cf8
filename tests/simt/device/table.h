// The emulated device's table of CUDA calls (base/gpu.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/gpu.h"
#include "kernels/cuda/kernels.h"

namespace rondo::simt {

// What this process launched so far, for tests that ask how and not only what.
struct LaunchCounts {
  std::atomic<std::uint64_t> launches{0};
  std::atomic<unsigned> largest_grid{0};
};
LaunchCounts& launch_counts();

// How often this process made one call of the table.
struct CallCount {
  explicit CallCount(const char* call);
  const char* const name;
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> allowed{~std::uint64_t{0}};
  CallCount* const next;
};
const CallCount* call_counts();  // of all calls of the table; the last one's `next` is nullptr
// Every call of this name (a member of GpuApi) after `allowed` more fails in this process, as it
// does where a driver is too old or a switch is full.
void refuse_call(std::string_view name, std::uint64_t allowed = 0);

// `kernel_of` finds the caller's kernels by number; all callers in a process have the same.
const GpuApi& gpu_table(const cuda::KernelEntry& (*kernel_of)(int kernel));

}  // namespace rondo::simt
