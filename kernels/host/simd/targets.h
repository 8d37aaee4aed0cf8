// SPDX-License-Identifier: Apache-2.0
// The instruction sets that Highway compiles here; include this before any of its headers. Machines
// that reduce large tensors have at least AVX2; CPUs below it run the table's scalar code.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
