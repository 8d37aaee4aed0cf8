// SPDX-License-Identifier: Apache-2.0
// Macros for code that runs both on the host and on the device. RONDO_FN: __device__ under nvcc.
// RONDO_UNROLL (before a loop over a small array), RONDO_NO_UNROLL and RONDO_NO_INLINE (for
// functions with a long division) save registers on the device. On the host all are empty.
#pragma once

#ifdef __CUDACC__
#define RONDO_FN __device__
#define RONDO_UNROLL _Pragma("unroll")
#define RONDO_NO_UNROLL _Pragma("unroll 1")
#define RONDO_NO_INLINE __noinline__
#else
#define RONDO_FN
#define RONDO_UNROLL
#define RONDO_NO_UNROLL
#define RONDO_NO_INLINE
#endif
