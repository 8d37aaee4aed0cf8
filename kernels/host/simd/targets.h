// SPDX-License-Identifier: Apache-2.0
// The instruction sets that Highway compiles here; include this before any of its headers. Machines
// that reduce large tensors have at least AVX2; CPUs below it run the table's scalar code.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
// Elsewhere what every CPU has, on ARM NEON: structs cannot hold vectors of SVE, whose size is
// unknown. Without the second macro functions, but not structs, are compiled for "+crypto", and GCC
// inlines neither into the other.
#if !defined(__x86_64__)
#define HWY_COMPILE_ONLY_STATIC 1
#define TOOLCHAIN_MISS_SYS_AUXV_H 1
#endif
