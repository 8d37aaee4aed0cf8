// SPDX-License-Identifier: Apache-2.0
// What CUDA reports about memory that the program allocated itself: pools, IPC handles and
// allocation handles of every kind, registered host memory.
#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <vector>

#include "asks.h"
#include "calls.h"
#include "processes.h"

namespace probe {
namespace {

struct Kind {
  const char* name;
  void* at;
};

// All queries of a call about a buffer, made at once (kernels/cuda/gpu_cuda.cc).
void ask_at_once(const Kind& kind) {
  unsigned type = 0, managed = 1, of_malloc = 0;
  int device = -1;
  CUdeviceptr base = 0, on_device = 0;
  std::size_t bytes = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void* answers[] = {&type, &managed, &device, &on_device, &base, &bytes, &of_malloc};
  const CUresult result = PROBE_ENTRY(cuPointerGetAttributes)(
      std::size(asked), asked, answers, reinterpret_cast<CUdeviceptr>(kind.at));
  const std::string name = kind.name;
  const std::string seen =
      print("%s: %s, type %u, managed %u, device %d, %zu bytes%s, IPC %u", kind.name,
            name_of(result).c_str(), type, managed, device, bytes,
            base == reinterpret_cast<CUdeviceptr>(kind.at) ? " from it" : "", of_malloc);
  put(name + "_at_once", seen);
  if (name == "cudaHostAlloc") return check("asked_at_once", type != CU_MEMORYTYPE_DEVICE, seen);
  const bool is_known = result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && managed == 0 &&
                        device == 0 && (of_malloc != 0) == (name == "cudaMalloc");
  const bool has_range = bytes >= (4 << 20) && base == reinterpret_cast<CUdeviceptr>(kind.at);
  check("asked_at_once", is_known && (name != "cudaMalloc" || has_range), seen);
}

// Handles of a kind of memory: those that transport/memory/memory_registry.cc tries in turn.
void ask_handles(const Kind& kind) {
  CUmemGenericAllocationHandle allocation = 0;
  const CUresult retained = PROBE_ENTRY(cuMemRetainAllocationHandle)(&allocation, kind.at);
  std::string exported = "-";
  bool exports = false;
  if (retained == CUDA_SUCCESS) {
    int fd = -1;
    const CUresult result = PROBE_ENTRY(cuMemExportToShareableHandle)(
        &fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    exports = result == CUDA_SUCCESS;
    exported = name_of(result);
    PROBE(PROBE_ENTRY(cuMemRelease)(allocation));
  }
  cudaIpcMemHandle_t handle;
  const cudaError_t ipc = cudaIpcGetMemHandle(&handle, kind.at);
  cudaGetLastError();
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult range =
      PROBE_ENTRY(cuMemGetAddressRange)(&base, &bytes, reinterpret_cast<CUdeviceptr>(kind.at));
  cudaPointerAttributes attributes{};
  const cudaError_t pointer = cudaPointerGetAttributes(&attributes, kind.at);
  cudaGetLastError();
  put(kind.name,
      print("retain %s, export %s, IPC %s, range %s of %zu bytes%s, pointer %s of type %d",
            name_of(retained).c_str(), exported.c_str(), name_of(ipc).c_str(),
            name_of(range).c_str(), bytes,
            base == reinterpret_cast<CUdeviceptr>(kind.at) ? " from it" : "",
            name_of(pointer).c_str(), static_cast<int>(attributes.type)));
  const std::string name = kind.name;
  if (name == "cudaMalloc")
    check("handles_of_cudaMalloc", ipc == cudaSuccess && (retained != CUDA_SUCCESS || exports),
          "retain " + name_of(retained) + ", export " + exported + ", IPC " + name_of(ipc));
  if (name == "cuMemCreate") {
    check("handles_of_cuMemCreate", exports,
          "retain " + name_of(retained) + ", export " + exported);
    check("range_of_a_mapping", range == CUDA_SUCCESS, name_of(range));
  }
}

void* made_by_driver(std::size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  PROBE(PROBE_ENTRY(cuMemCreate)(&handle, bytes, &properties, 0));
  PROBE(PROBE_ENTRY(cuMemAddressReserve)(&at, bytes, 0, 0, 0));
  PROBE(PROBE_ENTRY(cuMemMap)(at, bytes, 0, handle, 0));
  PROBE(PROBE_ENTRY(cuMemSetAccess)(at, bytes, &access, 1));
  PROBE(PROBE_ENTRY(cuMemRelease)(handle));
  return reinterpret_cast<void*>(at);
}

std::string access_of(cudaMemPool_t pool, int device) {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  location.id = device;
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  const cudaError_t error = cudaMemPoolGetAccess(&flags, pool, &location);
  cudaGetLastError();
  if (error != cudaSuccess) return name_of(error);
  return flags == cudaMemAccessFlagsProtReadWrite ? "reads and writes" : print("flags %d", flags);
}

// A rank that is alone copies as within the device, wherever its buffers are.
void ask_copies_within(const char* registered) {
  constexpr std::size_t kBytes = 64;
  const cudaStream_t stream = new_stream();
  auto* const to = new_device<char>(kBytes);
  auto* const pinned = new_pinned<char>(kBytes);
  const std::vector<char> ordinary(kBytes);
  const auto copy = [&](const char* from) {
    const cudaError_t error = cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream);
    cudaGetLastError();
    return error;
  };
  const auto copy_in_capture = [&](const char* from, const char* name) {
    PROBE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    const cudaError_t copied = copy(from);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    cudaGetLastError();
    put(name, name_of(copied) + ", the capture " + name_of(ended));
    return copied == cudaSuccess ? ended : copied;
  };
  for (const char* const from : {static_cast<const char*>(pinned), registered}) {
    const cudaError_t error = copy(from);
    check("copied_as_within", error == cudaSuccess, name_of(error));
  }
  const cudaError_t in_graph = copy_in_capture(pinned, "pinned_in_a_capture");
  check("copied_as_within", in_graph == cudaSuccess, name_of(in_graph) + " in a capture");
  const cudaError_t refused = copy(ordinary.data());
  check("ordinary_is_refused", refused == cudaErrorInvalidValue, name_of(refused));
  copy_in_capture(ordinary.data(), "ordinary_in_a_capture");
  PROBE(cudaStreamSynchronize(stream));
}

}  // namespace

void ask_pools() {
  PROBE(cudaFree(nullptr));
  const cudaStream_t stream = new_stream();
  cudaMemPool_t pool = nullptr;
  PROBE(cudaDeviceGetDefaultMemPool(&pool, 0));
  for (int device = 0; device < device_count(); ++device)
    put(print("default_pool_by_device_%d", device), access_of(pool, device));
  void* from_pool = nullptr;
  PROBE(cudaMallocAsync(&from_pool, 1 << 20, stream));
  PROBE(cudaStreamSynchronize(stream));

  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t shareable = nullptr;
  const cudaError_t made = cudaMemPoolCreate(&shareable, &properties);
  put("shareable_pool", name_of(made));
  void* from_shareable = nullptr;
  if (made == cudaSuccess) {
    PROBE(cudaMallocFromPoolAsync(&from_shareable, 1 << 20, shareable, stream));
    PROBE(cudaStreamSynchronize(stream));
    cudaMemPoolPtrExportData data;
    put("pointer_of_shareable_pool", name_of(cudaMemPoolExportPointer(&data, from_shareable)));
  }
  cudaGetLastError();
  std::vector<Kind> kinds = {{"cudaMalloc", new_device<char>(4 << 20)},
                             {"cuMemCreate", made_by_driver(4 << 20)},
                             {"cudaMallocAsync", from_pool},
                             {"cudaHostAlloc", new_pinned<char>(1 << 20)}};
  if (from_shareable != nullptr) kinds.push_back({"shareable_pool_memory", from_shareable});
  for (const Kind& kind : kinds) {
    ask_at_once(kind);
    ask_handles(kind);
  }
  answer("handles of memory that was allocated in different ways");
}

void ask_registration() {
  PROBE(cudaFree(nullptr));
  constexpr std::size_t kBytes = 8 << 20;
  constexpr unsigned kFlags = cudaHostRegisterMapped | cudaHostRegisterPortable;
  auto* const at = static_cast<char*>(share_memory(kBytes));
  std::memset(at, 1, kBytes);
  double begin = now_seconds();
  PROBE(cudaHostRegister(at, kBytes, kFlags));
  put("register_8MiB", since_us(begin), "us");
  void* on_device = nullptr;
  PROBE(cudaHostGetDevicePointer(&on_device, at, 0));
  check("same_address", on_device == at, on_device == at ? "one address" : "two addresses");
  put("registered_again", name_of(cudaHostRegister(at, kBytes, kFlags)));
  cudaGetLastError();
  cudaPointerAttributes attributes{};
  PROBE(cudaPointerGetAttributes(&attributes, at + 4096));
  check("known_as_host", attributes.type == cudaMemoryTypeHost,
        print("type %d, device address %s", static_cast<int>(attributes.type),
              attributes.devicePointer == at + 4096 ? "its own" : "another"));
  ask_copies_within(at);
  begin = now_seconds();
  PROBE(cudaHostUnregister(at));
  put("unregister_8MiB", since_us(begin), "us");
  std::vector<char> ordinary(4096);
  const cudaError_t unknown = cudaPointerGetAttributes(&attributes, ordinary.data());
  cudaGetLastError();
  check("ordinary_is_unknown",
        unknown == cudaSuccess && attributes.type == cudaMemoryTypeUnregistered,
        print("%s, type %d", name_of(unknown).c_str(), static_cast<int>(attributes.type)));
  void* const mapping = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  put("register_read_only_pages", name_of(cudaHostRegister(mapping, kBytes, kFlags)));
  cudaGetLastError();
  answer("registering a memory file, and what pointers are known as");
}

}  // namespace probe
