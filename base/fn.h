// RONDO_FN marks code that algorithms and executors share: __device__ under nvcc, nothing on the
// host.
#pragma once

#ifdef __CUDACC__
#define RONDO_FN __device__
#else
#define RONDO_FN
#endif
