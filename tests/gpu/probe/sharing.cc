// SPDX-License-Identifier: Apache-2.0
// What one process can pass to another: device memory by CUDA IPC and by file descriptors.
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "asks.h"
#include "calls.h"
#include "processes.h"

namespace probe {
namespace {

constexpr std::size_t kBytes = 2 << 20;

struct Shared {
  Meeting meeting;
  cudaIpcMemHandle_t handle[2];
  cudaIpcEventHandle_t event;
};

unsigned first_word(const void* at) {
  unsigned seen = 0;
  PROBE(cudaMemcpy(&seen, at, sizeof(seen), cudaMemcpyDefault));
  return seen;
}

void give_by_ipc(Shared& shared) {
  auto* const at = new_device<char>(2 * kBytes);
  PROBE(cudaMemset(at, 0x11, kBytes));
  PROBE(cudaMemset(at + kBytes, 0x22, kBytes));
  PROBE(cudaIpcGetMemHandle(&shared.handle[0], at));
  // A handle of an inner address names the whole allocation.
  put("handle_of_a_place_inside", name_of(cudaIpcGetMemHandle(&shared.handle[1], at + kBytes)));
  cudaGetLastError();
  cudaEvent_t event = new_event(cudaEventDisableTiming | cudaEventInterprocess);
  PROBE(cudaEventRecord(event));
  PROBE(cudaDeviceSynchronize());
  put("event_handle", name_of(cudaIpcGetEventHandle(&shared.event, event)));
  cudaGetLastError();
  shared.meeting.meet(2);
  shared.meeting.meet(2);
  // Written by the other process.
  const unsigned seen = first_word(at);
  check("ipc", seen == 0x33333333, print("written by the other process: %x", seen));
  shared.meeting.meet(2);
}

void take_by_ipc(Shared& shared) {
  PROBE(cudaFree(nullptr));
  shared.meeting.meet(2);
  void* opened = nullptr;
  double begin = now_seconds();
  PROBE(cudaIpcOpenMemHandle(&opened, shared.handle[0], cudaIpcMemLazyEnablePeerAccess));
  put("open", since_us(begin), "us");
  auto* const bytes = static_cast<char*>(opened);
  put("first_word", print("%x", first_word(bytes)));
  put("second_half", print("%x", first_word(bytes + kBytes)));
  void* again = nullptr;
  const cudaError_t twice =
      cudaIpcOpenMemHandle(&again, shared.handle[0], cudaIpcMemLazyEnablePeerAccess);
  cudaGetLastError();
  put("opened_twice", twice == cudaSuccess ? (again == opened ? "at the same address" : "elsewhere")
                                           : name_of(twice));
  cudaEvent_t event = nullptr;
  put("event_opens", name_of(cudaIpcOpenEventHandle(&event, shared.event)));
  cudaGetLastError();
  PROBE(cudaMemset(bytes, 0x33, kBytes));
  PROBE(cudaDeviceSynchronize());
  shared.meeting.meet(2);
  shared.meeting.meet(2);
  if (twice == cudaSuccess) PROBE(cudaIpcCloseMemHandle(again));
  begin = now_seconds();
  if (cudaIpcCloseMemHandle(opened) == cudaSuccess) put("close", since_us(begin), "us");
  cudaGetLastError();
}

}  // namespace

void ask_ipc() {
  Shared& shared = *static_cast<Shared*>(share_memory(sizeof(Shared)));
  in_processes(2, [&](int rank) { rank == 0 ? give_by_ipc(shared) : take_by_ipc(shared); });
  answer("device memory of cudaMalloc, opened by another process");
}

namespace {

struct Message {
  char space[CMSG_SPACE(sizeof(int))] = "";
  char byte = 0;
  iovec data{&byte, 1};
  msghdr header{};
  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = space;
    header.msg_controllen = sizeof(space);
  }
};
void send_file(int socket, int fd) {
  Message message;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_len = CMSG_LEN(sizeof(int));
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  if (sendmsg(socket, &message.header, 0) != 1) give_up("sendmsg failed");
}
int receive_file(int socket) {
  Message message;
  if (recvmsg(socket, &message.header, 0) != 1) give_up("recvmsg failed");
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr) give_up("no file came");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
  return fd;
}

CUmemAllocationProp device_memory(CUmemAllocationHandleType type) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = type;
  return properties;
}

// Maps an allocation for device 0, for reading and writing.
CUdeviceptr mapped(CUmemGenericAllocationHandle handle, std::size_t bytes) {
  CUdeviceptr at = 0;
  const CUmemAccessDesc access{device_memory(CU_MEM_HANDLE_TYPE_NONE).location,
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  PROBE(PROBE_ENTRY(cuMemAddressReserve)(&at, bytes, 0, 0, 0));
  PROBE(PROBE_ENTRY(cuMemMap)(at, bytes, 0, handle, 0));
  PROBE(PROBE_ENTRY(cuMemSetAccess)(at, bytes, &access, 1));
  return at;
}

struct Files {
  Meeting meeting;
  std::size_t bytes;
};

void give_file(Files& files, int socket) {
  CUmemAllocationProp properties = device_memory(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const auto granularity = PROBE_ENTRY(cuMemGetAllocationGranularity);
  std::size_t minimum = 0, recommended = 0;
  PROBE(granularity(&minimum, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  PROBE(granularity(&recommended, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  put("granularity_minimum", static_cast<double>(minimum), "bytes");
  put("granularity_recommended", static_cast<double>(recommended), "bytes");
  files.bytes = recommended;
  const auto create = PROBE_ENTRY(cuMemCreate);
  CUmemGenericAllocationHandle handle = 0;
  // With the flag that network cards need, if this driver has it.
  properties.allocFlags.gpuDirectRDMACapable = 1;
  put("create_for_rdma", name_of(create(&handle, recommended, &properties, 0)));
  properties.allocFlags.gpuDirectRDMACapable = 0;
  double begin = now_seconds();
  PROBE(create(&handle, recommended, &properties, 0));
  put("create", since_us(begin), "us");
  begin = now_seconds();
  const CUdeviceptr at = mapped(handle, recommended);
  put("reserve_map_allow", since_us(begin), "us");
  PROBE(cudaMemset(reinterpret_cast<void*>(at), 0x22, recommended));
  PROBE(cudaDeviceSynchronize());
  int fd = -1;
  PROBE(PROBE_ENTRY(cuMemExportToShareableHandle)(&fd, handle,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  send_file(socket, fd);
  files.meeting.meet(2);
  files.meeting.meet(2);
  const unsigned seen = first_word(reinterpret_cast<void*>(at));
  check("files", seen == 0x44444444, print("written by the other process: %x", seen));

  // The address range of such memory as a file for other devices.
  if (void* const entry = driver_entry("cuMemGetHandleForAddressRange"); entry != nullptr) {
    int range = -1;
    const auto get = reinterpret_cast<decltype(&cuMemGetHandleForAddressRange)>(entry);
    put("dmabuf_of_it",
        name_of(get(&range, at, recommended, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)));
    void* const plain = new_device<char>(recommended);
    put("dmabuf_of_cudaMalloc", name_of(get(&range, reinterpret_cast<CUdeviceptr>(plain),
                                            recommended, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)));
  }
  // Handles for a fabric of several hosts.
  const CUmemAllocationProp fabric = device_memory(CU_MEM_HANDLE_TYPE_FABRIC);
  const CUresult made = create(&handle, recommended, &fabric, 0);
  put("create_with_fabric_handle", name_of(made));
  if (made != CUDA_SUCCESS) return;
  CUmemFabricHandle exported;
  put("export_fabric_handle", name_of(PROBE_ENTRY(cuMemExportToShareableHandle)(
                                  &exported, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0)));
}

void take_file(Files& files, int socket) {
  PROBE(cudaFree(nullptr));
  const int fd = receive_file(socket);
  files.meeting.meet(2);
  CUmemGenericAllocationHandle handle = 0;
  const double begin = now_seconds();
  PROBE(PROBE_ENTRY(cuMemImportFromShareableHandle)(
      &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  const CUdeviceptr at = mapped(handle, files.bytes);
  put("import_reserve_map_allow", since_us(begin), "us");
  PROBE(PROBE_ENTRY(cuMemRelease)(handle));  // the mapping keeps it
  const unsigned seen = first_word(reinterpret_cast<void*>(at));
  if (seen != 0x22222222) give_up(print("the imported memory holds %x", seen));
  PROBE(cudaMemset(reinterpret_cast<void*>(at), 0x44, files.bytes));
  PROBE(cudaDeviceSynchronize());
  files.meeting.meet(2);
}

}  // namespace

void ask_files() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets) != 0) give_up("no socketpair");
  Files& files = *static_cast<Files*>(share_memory(sizeof(Files)));
  in_processes(2, [&](int rank) {
    PROBE(cudaSetDevice(0));
    PROBE(cudaFree(nullptr));
    rank == 0 ? give_file(files, sockets[0]) : take_file(files, sockets[1]);
  });
  answer("device memory of cuMemCreate, mapped by another process by a file descriptor");
}

}  // namespace probe
