// SPDX-License-Identifier: Apache-2.0
// device_api_check [RANKS [DEVICES [multicast]]]: ranks that are threads, on one real GPU or on
// several in turn, form an Lsa team. A kernel compiled against nccl_device.h adds the peers'
// windows between two barriers; windows and device communicators are destroyed and made again; then
// an abort ends a barrier that nobody else enters. `multicast`: barriers by multicast memory, with
// NCCL_NVLS_ENABLE=1. Prints a line, and exits 1 with the first error, 77 where there are fewer
// devices or no multicast memory.
// The header is ours, or NVIDIA's (the target device_api_check_theirs): kernels of its versions
// before 2.29.7 know no abort, so there it is left out.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

__global__ void sum_windows(ncclWindow_t window, ncclDevComm comm, unsigned round, bool multicast) {
  const unsigned me = blockIdx.x * kThreads + threadIdx.x;
  const unsigned next = blockIdx.x * kThreads + (threadIdx.x + 1) % kThreads;
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x,
                                             multicast};
  auto* const own = static_cast<unsigned*>(ncclGetLocalPointer(window, 0));
  own[me] = comm.rank * 100000 + round * 1000 + me;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  unsigned sum = 0;
  for (int peer = 0; peer < comm.lsaSize; ++peer)
    sum += static_cast<unsigned*>(ncclGetLsaPointer(window, 0, peer))[next];
  own[kValues + next] = sum;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

struct Job {
  int ranks, devices;
  bool multicast;
  ncclUniqueId id;
};

// A rank's window and device communicator. Destroyed after the kernels of all ranks have ended:
// destruction copies, which may wait behind a peer's kernel where ranks share a GPU.
struct Memory {
  static constexpr size_t kBytes = 2 * kValues * sizeof(unsigned);
  ncclComm_t comm;
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
  ncclDevComm device_comm;

  Memory(ncclComm_t of, const Job& job) : comm(of) {
    NCCL_OK(ncclMemAlloc(&memory, kBytes));
    NCCL_OK(ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER  // from 2.29 on
    ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
    ncclDevCommRequirements wanted{};
#endif
    wanted.lsaBarrierCount = kCtas;
    wanted.lsaMultimem = job.multicast;
    if (ncclDevCommCreate(comm, &wanted, &device_comm) != ncclSuccess) {
      const char* const text = ncclGetLastError(comm);
      std::printf("%s\n", text);
      std::_Exit(job.multicast && std::strstr(text, "multicast") != nullptr ? 77 : 1);
    }
    if (device_comm.lsaSize != job.ranks)
      std::printf("a team of %d\n", device_comm.lsaSize), std::_Exit(1);
  }
  void destroy() {
    NCCL_OK(ncclDevCommDestroy(comm, &device_comm));
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    NCCL_OK(ncclMemFree(memory));
  }
};

void run_rank(int rank, const Job& job, std::barrier<>& together) {
  CUDA_OK(cudaSetDevice(rank % job.devices));
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ncclComm_t comm;
  NCCL_OK(ncclCommInitRank(&comm, job.ranks, job.id, rank));
  const auto launch = [&](const Memory& with, unsigned round) {
    sum_windows<<<kCtas, kThreads, 0, stream>>>(with.window, with.device_comm, round,
                                                job.multicast);
    CUDA_OK(cudaGetLastError());
  };
  const auto add = [&](const Memory& with, unsigned round) {
    together.arrive_and_wait();
    launch(with, round);
    std::vector<unsigned> got(kValues);
    CUDA_OK(cudaMemcpyAsync(got.data(), static_cast<unsigned*>(with.memory) + kValues,
                            kValues * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    for (unsigned i = 0; i < kValues; ++i) {
      unsigned want = 0;
      for (int r = 0; r < job.ranks; ++r) want += r * 100000 + round * 1000 + i;
      if (got[i] != want)
        std::printf("rank %d, round %u, element %u\n", rank, round, i), std::_Exit(1);
    }
  };
  for (int turn = 0; turn < 2; ++turn) {
    Memory memory(comm, job);
    for (unsigned round = 0; round < 3; ++round) add(memory, round);
    together.arrive_and_wait();
    memory.destroy();
  }
  Memory last(comm, job);
  add(last, 3);
  together.arrive_and_wait();
#if NCCL_VERSION_CODE >= 22907
  if (rank == 0) launch(last, 9);
  NCCL_OK(ncclCommAbort(comm));
  CUDA_OK(cudaStreamSynchronize(stream));
  together.arrive_and_wait();
  NCCL_OK(ncclMemFree(last.memory));
#else
  last.destroy();
  NCCL_OK(ncclCommDestroy(comm));
#endif
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a program that is ended writes no buffers
  // Kernels of ranks that wait for each other must not share a hardware queue.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  Job job{argc > 1 ? std::atoi(argv[1]) : 4,
          argc > 2 ? std::atoi(argv[2]) : 1,
          argc > 3 && std::strcmp(argv[3], "multicast") == 0,
          {}};
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < job.devices)
    std::printf("%d devices, of %d\n", devices, job.devices), std::_Exit(77);
  NCCL_OK(ncclGetUniqueId(&job.id));
  for (int device = job.devices - 1; device >= 0; --device) {  // loads the kernel
    cudaFuncAttributes loaded;
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaFuncGetAttributes(&loaded, sum_windows));
  }
  std::barrier together(job.ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < job.ranks; ++r) threads.emplace_back([&, r] { run_rank(r, job, together); });
  for (std::thread& one : threads) one.join();
  std::printf("%d ranks on %d devices added their windows 7 times%s, by the header of %d\n",
              job.ranks, job.devices,
              NCCL_VERSION_CODE < 22907 ? "" : ", and an abort ended a barrier", NCCL_VERSION_CODE);
}
