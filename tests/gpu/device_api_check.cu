// SPDX-License-Identifier: Apache-2.0
// device_api_check [RANKS]: threads that share one real GPU form an Lsa team. A kernel compiled
// against nccl_device.h (ours, or NVIDIA's with -I of its headers) adds the peers' windows between
// two barriers, three times; then an abort ends a barrier that nobody else enters. Prints a line,
// and exits 1 with the first error.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kCtas = 2, kThreads = 128, kValues = kCtas * kThreads;

#define CUDA_OK(call)                                         \
  if (const cudaError_t error = (call); error != cudaSuccess) \
  std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error)), std::_Exit(1)
#define NCCL_OK(call)                                            \
  if (const ncclResult_t result = (call); result != ncclSuccess) \
  std::printf("line %d: %s: %s\n", __LINE__, #call, ncclGetLastError(nullptr)), std::_Exit(1)

__global__ void sum_windows(ncclWindow_t window, ncclDevComm comm, unsigned round) {
  const unsigned me = blockIdx.x * kThreads + threadIdx.x;
  const unsigned next = blockIdx.x * kThreads + (threadIdx.x + 1) % kThreads;
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x};
  auto* const own = static_cast<unsigned*>(ncclGetLocalPointer(window, 0));
  own[me] = comm.rank * 100000 + round * 1000 + me;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  unsigned sum = 0;
  for (int peer = 0; peer < comm.lsaSize; ++peer)
    sum += static_cast<unsigned*>(ncclGetLsaPointer(window, 0, peer))[next];
  own[kValues + next] = sum;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

void run_rank(int rank, int ranks, const ncclUniqueId& id, std::barrier<>& together) {
  CUDA_OK(cudaSetDevice(0));
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ncclComm_t comm;
  NCCL_OK(ncclCommInitRank(&comm, ranks, id, rank));
  void* memory;
  constexpr size_t kBytes = 2 * kValues * sizeof(unsigned);
  NCCL_OK(ncclMemAlloc(&memory, kBytes));
  ncclWindow_t window;
  NCCL_OK(ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER  // from 2.29 on
  ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements wanted{};
#endif
  wanted.lsaBarrierCount = kCtas;
  ncclDevComm device_comm;
  NCCL_OK(ncclDevCommCreate(comm, &wanted, &device_comm));
  if (device_comm.lsaSize != ranks)
    std::printf("a team of %d\n", device_comm.lsaSize), std::_Exit(1);
  for (unsigned round = 0; round < 3; ++round) {
    together.arrive_and_wait();
    sum_windows<<<kCtas, kThreads, 0, stream>>>(window, device_comm, round);
    CUDA_OK(cudaGetLastError());
    std::vector<unsigned> got(kValues);
    CUDA_OK(cudaMemcpyAsync(got.data(), static_cast<unsigned*>(memory) + kValues,
                            kValues * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    for (unsigned i = 0; i < kValues; ++i) {
      unsigned want = 0;
      for (int r = 0; r < ranks; ++r) want += r * 100000 + round * 1000 + i;
      if (got[i] != want) std::printf("rank %d, element %u\n", rank, i), std::_Exit(1);
    }
  }
  together.arrive_and_wait();
  if (rank == 0) sum_windows<<<kCtas, kThreads, 0, stream>>>(window, device_comm, 9);
  NCCL_OK(ncclCommAbort(comm));
  CUDA_OK(cudaStreamSynchronize(stream));
  together.arrive_and_wait();
  NCCL_OK(ncclMemFree(memory));
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a program that is ended writes no buffers
  // Kernels of ranks that wait for each other must not share a hardware queue.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  cudaFuncAttributes loaded;
  CUDA_OK(cudaFuncGetAttributes(&loaded, sum_windows));  // loads the kernel
  std::barrier together(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { run_rank(r, ranks, id, together); });
  for (std::thread& one : threads) one.join();
  std::printf("%d ranks added their windows 3 times, and an abort ended a barrier\n", ranks);
}
