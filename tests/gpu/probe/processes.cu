// Processes that share one GPU: hand-off by stream memory operations, IPC, VMM, L2 after a switch.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "probe.h"

namespace probe {
namespace {

constexpr int kRounds = 200;
constexpr std::size_t kPage = 4096;

struct Shared {
  alignas(kPage) std::uint32_t flag[1024];  // one cache line a rank
  alignas(kPage) std::atomic<int> arrived;
  double seconds;
  cudaIpcMemHandle_t handle;
};

void meet(Shared& shared, int count) {
  shared.arrived.fetch_add(1);
  while (shared.arrived.load() < count) usleep(100);
}

CUdeviceptr on_device(std::uint32_t* host) {
  void* pointer = nullptr;
  PROBE(cudaHostGetDevicePointer(&pointer, host, 0));
  return reinterpret_cast<CUdeviceptr>(pointer);
}

__global__ void touch(int* at) { at[threadIdx.x] += 1; }

// A token goes round: rank r waits for its flag, runs a small kernel, sets the next one's.
void pass_token(int rank, int n, Shared& shared, CUdeviceptr flags) {
  const auto wait = PROBE_ENTRY(cuStreamWaitValue32);
  const auto write = PROBE_ENTRY(cuStreamWriteValue32);
  cudaStream_t stream;
  PROBE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* scratch = nullptr;
  PROBE(cudaMalloc(&scratch, kPage));
  PROBE(cudaMemset(scratch, 0, kPage));
  touch<<<1, 32, 0, stream>>>(scratch);
  PROBE(cudaStreamSynchronize(stream));
  meet(shared, n);
  const double begin = now_seconds();
  const CUdeviceptr mine = flags + rank * 64, next = flags + (rank + 1) % n * 64;
  for (int round = 1; round <= kRounds; ++round) {
    if (rank > 0 || round > 1)
      PROBE_DRIVER(wait(stream, mine, round - (rank == 0), CU_STREAM_WAIT_VALUE_GEQ));
    touch<<<1, 32, 0, stream>>>(scratch);
    PROBE_DRIVER(write(stream, next, round, 0));
  }
  PROBE(cudaStreamSynchronize(stream));
  if (rank == n - 1) shared.seconds = now_seconds() - begin;
}

Shared& new_shared() { return *static_cast<Shared*>(share_memory(sizeof(Shared))); }

}  // namespace

void ask_handoff(Answer& answer) {
  for (int n : {2, 4, 8}) {
    Shared& shared = new_shared();
    const bool well = in_processes(n, [&](int rank) {
      PROBE(cudaSetDevice(0));
      PROBE(cudaHostRegister(shared.flag, kPage, cudaHostRegisterMapped));
      pass_token(rank, n, shared, on_device(shared.flag));
    });
    if (!well) give_up("a process failed, n = " + std::to_string(n));
    answer.put("us_per_handoff_" + std::to_string(n), shared.seconds / kRounds / n * 1e6);
  }
}

void ask_handoff_ipc(Answer& answer) {
  constexpr int n = 2;
  Shared& shared = new_shared();
  const bool well = in_processes(n, [&](int rank) {
    PROBE(cudaSetDevice(0));
    void* flags = nullptr;
    if (rank == 0) {
      PROBE(cudaMalloc(&flags, kPage));
      PROBE(cudaMemset(flags, 0, kPage));
      PROBE(cudaDeviceSynchronize());
      PROBE(cudaIpcGetMemHandle(&shared.handle, flags));
    }
    meet(shared, n);
    if (rank != 0)
      PROBE(cudaIpcOpenMemHandle(&flags, shared.handle, cudaIpcMemLazyEnablePeerAccess));
    shared.arrived.fetch_add(1);
    while (shared.arrived.load() < 2 * n) usleep(100);
    pass_token(rank, n, shared, reinterpret_cast<CUdeviceptr>(flags));
    shared.arrived.fetch_add(1);
    while (shared.arrived.load() < 4 * n) usleep(100);
  });
  if (!well) give_up("a process failed");
  answer.put("us_per_handoff_2", shared.seconds / kRounds / n * 1e6);
}

void ask_ipc(Answer& answer) {
  Shared& shared = new_shared();
  const bool well = in_processes(2, [&](int rank) {
    PROBE(cudaSetDevice(0));
    int* at = nullptr;
    if (rank == 0) {
      PROBE(cudaMalloc(&at, 2 << 20));
      PROBE(cudaMemset(at, 0x11, 2 << 20));
      PROBE(cudaDeviceSynchronize());
      PROBE(cudaIpcGetMemHandle(&shared.handle, at));
    }
    meet(shared, 2);
    if (rank == 1) {
      const double begin = now_seconds();
      void* opened = nullptr;
      PROBE(cudaIpcOpenMemHandle(&opened, shared.handle, cudaIpcMemLazyEnablePeerAccess));
      shared.seconds = now_seconds() - begin;
      int seen = 0;
      PROBE(cudaMemcpy(&seen, opened, sizeof(seen), cudaMemcpyDefault));
      if (seen != 0x11111111) give_up("the opened memory holds something else");
    }
    shared.arrived.fetch_add(1);
    while (shared.arrived.load() < 4) usleep(100);
  });
  answer.put("works", well);
  answer.put("open_us", shared.seconds * 1e6);
}

void ask_vmm(Answer& answer) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) != 0) give_up("socketpair failed");
  Shared& shared = new_shared();
  const bool well = in_processes(2, [&](int rank) {
    PROBE(cudaSetDevice(0));
    PROBE(cudaFree(nullptr));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    std::size_t bytes = 0;
    PROBE_DRIVER(PROBE_ENTRY(cuMemGetAllocationGranularity)(&bytes, &properties,
                                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle handle = 0;
    int fd = -1;
    char space[CMSG_SPACE(sizeof(int))] = "";
    char byte = 0;
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    if (rank == 0) {
      PROBE_DRIVER(PROBE_ENTRY(cuMemCreate)(&handle, bytes, &properties, 0));
      PROBE_DRIVER(PROBE_ENTRY(cuMemExportToShareableHandle)(
          &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
      cmsghdr* control = CMSG_FIRSTHDR(&message);
      *control = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
      if (sendmsg(sockets[0], &message, 0) != 1) give_up("sendmsg failed");
    } else {
      if (recvmsg(sockets[1], &message, 0) != 1) give_up("recvmsg failed");
      std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
      void* as_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
      PROBE_DRIVER(PROBE_ENTRY(cuMemImportFromShareableHandle)(
          &handle, as_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    }
    CUdeviceptr at = 0;
    PROBE_DRIVER(PROBE_ENTRY(cuMemAddressReserve)(&at, bytes, 0, 0, 0));
    PROBE_DRIVER(PROBE_ENTRY(cuMemMap)(at, bytes, 0, handle, 0));
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    PROBE_DRIVER(PROBE_ENTRY(cuMemSetAccess)(at, bytes, &access, 1));
    void* pointer = reinterpret_cast<void*>(at);
    if (rank == 0) {
      PROBE(cudaMemset(pointer, 0x22, bytes));
      PROBE(cudaDeviceSynchronize());
      shared.seconds = static_cast<double>(bytes);
    }
    meet(shared, 2);
    int seen = 0;
    PROBE(cudaMemcpy(&seen, pointer, sizeof(seen), cudaMemcpyDefault));
    if (seen != 0x22222222) give_up("the imported memory holds something else");
  });
  answer.put("works", well);
  answer.put("granularity", shared.seconds);
}

namespace {

__global__ void read_all(const float4* from, std::size_t count, float4* sink) {
  float4 sum{};
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * blockDim.x) {
    const float4 v = from[i];
    sum.x += v.x + v.y + v.z + v.w;
  }
  if (sum.x == 12345.f) *sink = sum;
}

double read_rate(int processes, std::size_t bytes) {
  Shared& shared = new_shared();
  const bool well = in_processes(processes, [&](int rank) {
    PROBE(cudaSetDevice(0));
    float4* at = nullptr;
    PROBE(cudaMalloc(&at, bytes));
    PROBE(cudaMemset(at, 0, bytes));
    PROBE(cudaDeviceSynchronize());
    meet(shared, processes);
    const double begin = now_seconds();
    int repeats = 0;
    for (; now_seconds() - begin < 1; repeats += 10) {
      for (int i = 0; i < 10; ++i) read_all<<<264, 512>>>(at, bytes / sizeof(float4), at);
      PROBE(cudaDeviceSynchronize());
    }
    if (rank == 0) shared.seconds = (now_seconds() - begin) / repeats;
  });
  if (!well) give_up("a process failed");
  return bytes / shared.seconds * 1e-9;
}

}  // namespace

void ask_l2(Answer& answer) {
  answer.put("gbs_16MiB_alone", read_rate(1, 16 << 20));
  answer.put("gbs_16MiB_of_2_processes", read_rate(2, 16 << 20));
}

}  // namespace probe
