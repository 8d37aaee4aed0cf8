// SPDX-License-Identifier: Apache-2.0
// moe_check [RANKS]: the example of a mixture of experts (api/examples/moe.h) on threads that share
// one real GPU, against a serial layer, bit by bit: called once, then replayed as a graph, with
// other routes each time. Then a wrong count, which all ranks learn of. Prints a line, and exits 1
// with the first error.
#include <cuda_runtime.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "moe.h"

namespace {

constexpr size_t kTokens = 200, kWidth = 96, kChoices = 2;

#define CUDA_OK(call)                                         \
  if (const cudaError_t error = (call); error != cudaSuccess) \
  std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error)), std::_Exit(1)
#define NCCL_OK(call)                                            \
  if (const ncclResult_t result = (call); result != ncclSuccess) \
  std::printf("line %d: %s: %s\n", __LINE__, #call, ncclGetLastError(nullptr)), std::_Exit(1)

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
    for_each<<<16, 256, 0, on>>>(n, body);
    CUDA_OK(cudaGetLastError());
  }
  cudaStream_t stream() const { return on; }
};
struct Expert {
  float factor;
  ON_GPU float operator()(float x) const { return fmaf(x, factor, -1.0f / 3); }
};

template <class T>
T* pinned(size_t n) {
  void* at = nullptr;
  CUDA_OK(cudaHostAlloc(&at, n * sizeof(T), cudaHostAllocPortable));
  return static_cast<T*>(at);
}
template <class T>
T* on_device(size_t n) {
  void* at = nullptr;
  CUDA_OK(cudaMalloc(&at, n * sizeof(T)));
  return static_cast<T*>(at);
}

// A rank's layer; inputs and results in pinned memory, which the host may write between replays.
struct Layer {
  int rank, ranks;
  size_t of_ranks = static_cast<size_t>(ranks), places = of_ranks * kTokens * kWidth;
  MoeMemory memory{on_device<float>(places), on_device<float>(places), on_device<size_t>(of_ranks),
                   on_device<size_t>(of_ranks), on_device<unsigned>(kTokens* kChoices)};
  Moe<Launch> moe{memory, ranks, kTokens, kWidth, kChoices};
  float *x = pinned<float>(kTokens * kWidth), *y = pinned<float>(kTokens * kWidth),
        *weights = pinned<float>(kTokens * kChoices);
  int* experts = pinned<int>(kTokens * kChoices);

  void fill(size_t round) {
    const auto n = static_cast<size_t>(ranks);
    for (size_t i = 0; i < kTokens * kWidth; ++i)
      x[i] = static_cast<float>((i * 37 + rank * 11 + round) % 101) / 7;
    for (size_t t = 0; t < kTokens; ++t) {
      const size_t first = round % 2 == 1 ? 0 : t * t / 5 + static_cast<size_t>(rank) + round;
      experts[2 * t] = static_cast<int>(first % n);
      experts[2 * t + 1] = static_cast<int>((first + 1 + t % (n - 1)) % n);
      weights[2 * t] = 1.0f / static_cast<float>(2 + t);
      weights[2 * t + 1] = 0.3f;
    }
  }
  void run(ncclComm_t comm, Launch launch) const {
    NCCL_OK(moe.dispatch(x, experts, comm, launch));
    moe.run_expert(launch, Expert{1.5f + static_cast<float>(rank)});
    NCCL_OK(moe.combine(y, weights, experts, comm, launch));
  }
  void check(size_t round) const {
    for (size_t i = 0; i < kTokens * kWidth; ++i) {
      float sum = 0;
      for (size_t c = i / kWidth * kChoices; c < (i / kWidth + 1) * kChoices; ++c)
        sum = fmaf(weights[c], Expert{1.5f + static_cast<float>(experts[c])}(x[i]), sum);
      if (y[i] == sum) continue;
      std::printf("rank %d, round %zu, value %zu: %g, not %g\n", rank, round, i, y[i], sum);
      std::_Exit(1);
    }
  }
};

// Calls of threads that share a GPU must be in one graph: rank 0 captures it, and the other ranks'
// streams join the capture.
struct SharedGraph {
  std::barrier<>& together;
  std::vector<cudaEvent_t> events;  // of each rank
  cudaGraphExec_t graph = nullptr;

  template <class Calls>
  void capture(int rank, cudaStream_t stream, Calls&& calls) {
    const auto mine = static_cast<size_t>(rank);
    CUDA_OK(cudaEventCreateWithFlags(&events[mine], cudaEventDisableTiming));
    if (rank == 0) {
      CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
      CUDA_OK(cudaEventRecord(events[0], stream));
    }
    together.arrive_and_wait();
    if (rank != 0) CUDA_OK(cudaStreamWaitEvent(stream, events[0], 0));
    together.arrive_and_wait();
    calls();
    if (rank != 0) CUDA_OK(cudaEventRecord(events[mine], stream));
    together.arrive_and_wait();
    if (rank == 0) {
      for (size_t r = 1; r < events.size(); ++r) CUDA_OK(cudaStreamWaitEvent(stream, events[r], 0));
      cudaGraph_t captured;
      CUDA_OK(cudaStreamEndCapture(stream, &captured));
      CUDA_OK(cudaGraphInstantiateWithFlags(&graph, captured, 0));
      CUDA_OK(cudaGraphDestroy(captured));
    }
    together.arrive_and_wait();
  }
};

void run_rank(int rank, int ranks, const ncclUniqueId& id, SharedGraph& shared) {
  std::barrier<>& together = shared.together;
  CUDA_OK(cudaSetDevice(0));
  Launch launch{};
  CUDA_OK(cudaStreamCreateWithFlags(&launch.on, cudaStreamNonBlocking));
  ncclComm_t comm;
  NCCL_OK(ncclCommInitRank(&comm, ranks, id, rank));
  Layer layer{rank, ranks};
  const auto finish = [&](size_t round) {
    CUDA_OK(cudaStreamSynchronize(launch.on));
    layer.check(round);
    together.arrive_and_wait();
  };
  layer.fill(0);
  together.arrive_and_wait();
  layer.run(comm, launch);
  finish(0);
  shared.capture(rank, launch.on, [&] { layer.run(comm, launch); });
  for (size_t round = 1; round < 5; ++round) {
    layer.fill(round);
    together.arrive_and_wait();
    if (rank == 0) CUDA_OK(cudaGraphLaunch(shared.graph, launch.on));
    if (rank == 0) CUDA_OK(cudaStreamSynchronize(launch.on));
    together.arrive_and_wait();
    finish(round);
  }
  // A count that is larger than maxcount: no data move, and all ranks get the error.
  if (rank == 1) {
    const size_t wrong = kTokens * kWidth + 1;
    CUDA_OK(cudaMemcpy(layer.memory.sent, &wrong, sizeof(wrong), cudaMemcpyHostToDevice));
  }
  together.arrive_and_wait();
  NCCL_OK(rondoAllToAllvDevice(layer.memory.out, layer.memory.sent, nullptr, layer.memory.in,
                               nullptr, nullptr, nullptr, kTokens * kWidth, ncclFloat32, comm,
                               launch.on));
  CUDA_OK(cudaStreamSynchronize(launch.on));
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(comm, &state));
  const std::string text = ncclGetLastError(comm);
  if (text.find("rank 1 sends 19201 elements to rank 0") == std::string::npos)
    std::printf("rank %d: %s\n", rank, text.c_str()), std::_Exit(1);
  together.arrive_and_wait();
  if (rank == 0) CUDA_OK(cudaGraphExecDestroy(shared.graph));
  NCCL_OK(ncclCommAbort(comm));
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a program that is ended writes no buffers
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  std::barrier together(ranks);
  SharedGraph shared{together, std::vector<cudaEvent_t>(static_cast<size_t>(ranks))};
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { run_rank(r, ranks, id, shared); });
  for (std::thread& one : threads) one.join();
  std::printf(
      "%d ranks: a mixture of experts has the bits of a serial one, in a graph too; a wrong count "
      "is named\n",
      ranks);
}
