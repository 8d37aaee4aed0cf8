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

}  // namespace rondo::topology
