// SPDX-License-Identifier: Apache-2.0
// Selects which of the compiled instruction sets this process uses.
//
// The choice is made once, from the CPU and the registers that the operating system saves. Tests
// may select a lesser set. Highway's headers generate the code of each target; the choice is made
// here so that the library does not need Highway's shared library at run time.
#pragma once

#include <array>

namespace rondo::host {

enum class SimdTarget { kPortable = 0, kAvx2 = 1, kAvx3 = 2 };  // kAvx3: AVX-512 F, BW, DQ and VL
inline constexpr std::array kSimdTargets = {SimdTarget::kPortable, SimdTarget::kAvx2,
                                            SimdTarget::kAvx3};

SimdTarget best_simd_target();     // the best of this CPU
SimdTarget current_simd_target();  // the best one unless a test has selected another
const char* name(SimdTarget target);

// Later reduce_function(), scale() and copy_bytes() use `target`, which must not exceed the best.
void use_simd_target_for_test(SimdTarget target);

}  // namespace rondo::host
