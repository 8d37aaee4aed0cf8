// Which instruction sets Highway compiles here; include before any of its headers. Nobody who
// reduces large tensors has less than AVX2: those below run the table's scalar code.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
