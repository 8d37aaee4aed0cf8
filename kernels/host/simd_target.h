// Which of the compiled instruction sets this process uses.
//
// Chosen once from the CPU (and what the operating system saves of it); tests may choose a lesser
// one. Highway's headers generate the code of each target; the choice is made here, so that the
// library does not need Highway's own shared library at run time.
#pragma once

#include <array>

namespace rondo::host {

enum class SimdTarget { kPortable = 0, kAvx2 = 1, kAvx3 = 2 };  // kAvx3: AVX-512 F, BW, DQ and VL
inline constexpr std::array kSimdTargets = {SimdTarget::kPortable, SimdTarget::kAvx2,
                                            SimdTarget::kAvx3};

SimdTarget best_simd_target();     // of this CPU
SimdTarget current_simd_target();  // the best one unless a test said otherwise
const char* name(SimdTarget target);

// Later reduce_function(), scale() and copy_bytes() use `target`, which must not exceed the best.
void use_simd_target_for_test(SimdTarget target);

}  // namespace rondo::host
