// The CPU's vector features, as far as Rondo's loops care: a mask of bits, and their names.
//
// The bit numbers are part of what ranks exchange: append, never renumber.
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
std::uint32_t detect_cpu_features();            // only what CPU and kernel both support
std::string feature_names(std::uint32_t mask);  // "avx2 fma f16c"; "none"

}  // namespace rondo::topology
