// SPDX-License-Identifier: Apache-2.0
// Number of accesses by this process's kernels to multicast memory; a real GPU does not report it.
#pragma once

#include <cstdint>

#ifdef RONDO_SIMT
#include "tests/simt/machine/multicast.h"
#endif

namespace rondo::test {

#ifdef RONDO_SIMT
inline constexpr bool kAccessesAreCounted = true;
inline std::uint64_t multicast_accesses() { return simt::multicast_accesses(); }
#else
inline constexpr bool kAccessesAreCounted = false;
inline std::uint64_t multicast_accesses() { return 0; }
#endif

}  // namespace rondo::test
