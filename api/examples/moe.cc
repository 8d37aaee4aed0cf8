// SPDX-License-Identifier: Apache-2.0
// moe: a layer of a mixture of experts (moe.h), compared with a serial one, bit by bit.
//
//   rondo run -n 4 -- moe                      on host memory
//   nvcc -x cu --extended-lambda moe.cc ...    on GPUs, one a process
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "launch_env.h"
#include "moe.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
template <class Body>
__global__ void for_each(size_t n, Body body) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n;
       i += size_t{gridDim.x} * blockDim.x)
    body(i);
}
struct Launch {
  cudaStream_t on;
  template <class Body>
  void operator()(size_t n, Body body) const {
    for_each<<<64, 256, 0, on>>>(n, body);
  }
  cudaStream_t stream() const { return on; }
};
template <class T>
T* memory(size_t n) {
  T* at = nullptr;
  if (cudaMallocManaged(&at, n * sizeof(T)) != cudaSuccess) std::exit(1);
  return at;
}
bool finish(const Launch& launch) { return cudaStreamSynchronize(launch.on) == cudaSuccess; }
#else
struct Launch {
  template <class Body>
  void operator()(size_t n, Body body) const {
    for (size_t i = 0; i < n; ++i) body(i);
  }
  cudaStream_t stream() const { return nullptr; }
};
template <class T>
T* memory(size_t n) {
  return static_cast<T*>(std::calloc(n, sizeof(T)));
}
bool finish(const Launch&) { return true; }
#endif

constexpr size_t kTokens = 64, kWidth = 32, kChoices = 2;

// The inputs, which every rank can compute: of a token of a rank.
float value_of(int rank, size_t i) { return static_cast<float>((i * 37 + rank * 11) % 101) / 7; }
int expert_of(int rank, size_t token, size_t choice, int ranks) {
  return static_cast<int>((token * token / 5 + rank + choice * (1 + token % (ranks - 1))) % ranks);
}
float weight_of(size_t token, size_t choice) { return choice == 0 ? 1.0f / (2 + token) : 0.3f; }
struct Expert {
  float factor;
  ON_GPU float operator()(float x) const { return fmaf(x, factor, -1.0f / 3); }
};

bool ok(ncclResult_t result) {
  if (result != ncclSuccess) std::fprintf(stderr, "%s\n", ncclGetLastError(nullptr));
  return result == ncclSuccess;
}

int main() {
  rondo_launch_t me;
  if (rondo_launch_read(&me) < 0) return 1;
  if (me.size < 2) return std::fprintf(stderr, "moe needs two ranks or more\n"), 1;
  ncclUniqueId id;
  if (me.rank == 0 && !ok(ncclGetUniqueId(&id))) return 1;
  if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0) != 0) return 1;
  Launch launch{};
#ifdef __CUDACC__
  int gpus = 1;
  cudaGetDeviceCount(&gpus);
  cudaSetDevice(me.rank % gpus);
  cudaStreamCreate(&launch.on);
#endif
  ncclComm_t comm;
  if (!ok(ncclCommInitRank(&comm, me.size, id, me.rank))) return 1;

  const size_t places = static_cast<size_t>(me.size) * kTokens * kWidth;
  const auto ranks = static_cast<size_t>(me.size);
  const Moe<Launch> moe({memory<float>(places), memory<float>(places), memory<size_t>(ranks),
                         memory<size_t>(ranks), memory<unsigned>(kTokens * kChoices)},
                        me.size, kTokens, kWidth, kChoices);
  float *const x = memory<float>(kTokens * kWidth), *const y = memory<float>(kTokens * kWidth);
  float* const weights = memory<float>(kTokens * kChoices);
  int* const experts = memory<int>(kTokens * kChoices);
  for (size_t i = 0; i < kTokens * kWidth; ++i) x[i] = value_of(me.rank, i);
  for (size_t i = 0; i < kTokens * kChoices; ++i) {
    experts[i] = expert_of(me.rank, i / kChoices, i % kChoices, me.size);
    weights[i] = weight_of(i / kChoices, i % kChoices);
  }

  if (!ok(moe.dispatch(x, experts, comm, launch))) return 1;
  moe.run_expert(launch, Expert{1.5f + static_cast<float>(me.rank)});
  if (!ok(moe.combine(y, weights, experts, comm, launch)) || !finish(launch)) return 1;

  size_t wrong = 0;
  for (size_t i = 0; i < kTokens * kWidth; ++i) {
    float sum = 0;
    for (size_t c = i / kWidth * kChoices; c < (i / kWidth + 1) * kChoices; ++c) {
      const Expert expert{1.5f + static_cast<float>(experts[c])};
      sum = fmaf(weights[c], fmaf(x[i], expert.factor, -1.0f / 3), sum);
    }
    wrong += y[i] != sum;
  }
  std::printf("rank %d: %zu of %zu values differ from the serial ones\n", me.rank, wrong,
              kTokens * kWidth);
  return !ok(ncclCommDestroy(comm)) || wrong != 0;
}
