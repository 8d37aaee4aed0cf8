// SPDX-License-Identifier: Apache-2.0
// The vector features of the CPU that Rondo's loops use: a bit mask, and the names of the bits.
//
// Ranks exchange this mask: append bits, never renumber them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace rondo::topology {

struct CpuFeature {
  std::uint32_t bit;
  const char* name;
};

std::span<const CpuFeature> known_cpu_features();
std::uint32_t detect_cpu_features();            // that both CPU and kernel support
std::string feature_names(std::uint32_t mask);  // "avx2 fma f16c"; "none"

// Sizes of the caches that this process's ranks use: one core's (L2) and the one that cores share
// (L3). They set the sizes of chunks.
//
// Read from /sys for the first CPU of the affinity mask. hwloc has the same values but takes 4 to
// 18 ms to load. Cost: about ten small files, 0.1 ms, once per process.
struct CacheSizes {
  std::uint64_t core_bytes = 0;    // L2; 0: unknown, or none
  std::uint64_t shared_bytes = 0;  // L3; 0: unknown, or none
};

// `root` is put before /sys (tests read the files of a simulated machine).
CacheSizes cache_sizes(const std::string& root = "");

}  // namespace rondo::topology
