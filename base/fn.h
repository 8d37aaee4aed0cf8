// What code says that algorithms and executors share. RONDO_FN: __device__ under nvcc, nothing on
// the host. For the sake of registers there: RONDO_UNROLL before a loop over a small array, and
// RONDO_NO_INLINE for functions with a long division; neither means anything on the host.
#pragma once

#ifdef __CUDACC__
#define RONDO_FN __device__
#define RONDO_UNROLL _Pragma("unroll")
#define RONDO_NO_INLINE __noinline__
#else
#define RONDO_FN
#define RONDO_UNROLL
#define RONDO_NO_INLINE
#endif
