// SPDX-License-Identifier: Apache-2.0
// GpuApi: the one table of CUDA runtime and driver calls that Rondo makes. Nothing else calls CUDA.
//
// Needs no CUDA header, so that it is the same in every build. Exactly one definition of gpu_api()
// is linked, chosen by the CMake variable RONDO_GPU:
//   none   base/gpu_none.cc            returns nullptr: a host build
//   cuda   kernels/cuda/gpu_cuda.cc    static cudart; driver entry points are looked up by version;
//                                      returns nullptr if there is no driver or no device
//   simt   tests/simt                  an emulated device
// Guarantees: the first gpu_api() call, from any thread, builds the table; later calls return the
// same table. No CUDA call is made before. Every function returns a GpuError (CUDA's numbers) and
// leaves no sticky error: after a failure the implementation clears CUDA's last error. A function
// pointer is nullptr only where the comment says "may be absent" (an older driver).
// Cost: an indirect call.
#pragma once

#include <cstddef>
#include <cstdint>

// CUDA's own handle types, declared as in CUDA's headers.
struct CUstream_st;
struct CUevent_st;

namespace rondo {

using GpuStream = CUstream_st*;
using GpuEvent = CUevent_st*;
inline const GpuStream kLegacyStream = nullptr;  // 1 and 2: CUDA's legacy and per-thread handles

// The values of cudaError_t that Rondo checks.
using GpuError = int;
inline constexpr GpuError kGpuSuccess = 0;
inline constexpr GpuError kGpuInvalidValue = 1;
inline constexpr GpuError kGpuOutOfMemory = 2;
inline constexpr GpuError kGpuInsufficientDriver = 35;
inline constexpr GpuError kGpuUnavailable = 46;
inline constexpr GpuError kGpuNoDevice = 100;
inline constexpr GpuError kGpuInvalidDevice = 101;
inline constexpr GpuError kGpuEccUncorrectable = 214;
inline constexpr GpuError kGpuPeerUnsupported = 217;
inline constexpr GpuError kGpuNvLinkUncorrectable = 220;
inline constexpr GpuError kGpuInvalidHandle = 400;
inline constexpr GpuError kGpuNotReady = 600;
inline constexpr GpuError kGpuIllegalAddress = 700;
inline constexpr GpuError kGpuLaunchOutOfResources = 701;
inline constexpr GpuError kGpuPeerAlreadyEnabled = 704;
inline constexpr GpuError kGpuHostMemoryAlreadyRegistered = 712;
inline constexpr GpuError kGpuLaunchFailure = 719;
inline constexpr GpuError kGpuNotPermitted = 800;
inline constexpr GpuError kGpuNotSupported = 801;
inline constexpr GpuError kGpuCaptureUnsupported = 900;
inline constexpr GpuError kGpuCaptureInvalidated = 901;
inline constexpr GpuError kGpuUnknownError = 999;

enum class GpuAttribute : int {  // CUdevice_attribute's numbers
  kWarpSize = 10,
  kMultiprocessors = 16,
  kClockKhz = 13,
  kCanMapHostMemory = 19,
  kUnifiedAddressing = 41,
  kMajor = 75,
  kMinor = 76,
  kL2Bytes = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kPageableMemoryAccess = 88,
  kCanUseHostPointerForRegistered = 91,
  kCooperativeLaunch = 95,
  kMaxSharedPerBlockOptin = 97,
  kVirtualMemory = 102,
  kPosixHandles = 103,
  kDirectVirtualMemory = 110,  // vmm_create()'s memory can be used for GPUDirect RDMA
  kDirectMemory = 116,         // NICs can access device memory by nvidia_peermem
  kDirectFlushes = 117,        // a mask: kFlushByHost
  kDirectOrdering = 118,       // from kOrderedForOwner on, NIC writes need no flush
  kDmabuf = 124,               // dmabuf_export() is supported
  kFabricHandles = 128,        // fabric_create() and its like are supported
  kMulticast = 132,
  kHostNuma = 134,
};

// kFlushByHost: a bit of kDirectFlushes. kOrderedForOwner: the minimum kDirectOrdering with which
// the GPU that owns the memory sees a NIC's writes as soon as the NIC reports their completion.
inline constexpr int kFlushByHost = 1;
inline constexpr int kOrderedForOwner = 100;

enum class GpuMemory : int { kUnregistered = 0, kHost = 1, kDevice = 2, kManaged = 3 };
struct GpuPointer {
  GpuMemory kind = GpuMemory::kUnregistered;
  int device = -1;            // that holds it; pinned memory: that it belongs to
  void* on_device = nullptr;  // address for kernels of the current device, or nullptr
  void* on_host = nullptr;    // address on the host, or nullptr
  // True: device memory with its own access list (from a pool or virtual memory). Enabling peer
  // access does not apply to it; ask may_access(). False: cudaMalloc's memory.
  bool own_access = false;
  // cudaMalloc's memory: the whole allocation. Other memory: nullptr and 0 bytes.
  const void* base = nullptr;
  std::size_t bytes = 0;
};

struct GpuIpcHandle {  // cudaIpcMemHandle_t
  unsigned char bytes[64];
};
using GpuAllocation = std::uint64_t;  // CUmemGenericAllocationHandle
struct GpuFabricHandle {              // CUmemFabricHandle
  unsigned char bytes[64];
};

enum class GpuCopy : int { kHostToHost = 0, kHostToDevice, kDeviceToHost, kDeviceToDevice, kAny };
enum class GpuCapture : int { kNone = 0, kActive = 1, kInvalidated = 2 };
struct GpuCaptureInfo {
  GpuCapture state = GpuCapture::kNone;
  std::uint64_t id = 0;  // of the capture; unique in the process
};
enum class GpuCaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

// Event flags: cudaEventDisableTiming | ...
inline constexpr unsigned kEventPlain = 2;  // no timing
inline constexpr unsigned kEventTiming = 0;
// How an event is recorded or waited for. kExternal is for captures only (CUDA refuses it
// elsewhere): it adds a node to the graph, so that each replay records or waits again.
enum class GpuEventUse : unsigned { kPlain = 0, kExternal = 1 };

// Flags of cudaHostAlloc and cudaHostRegister.
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostMapped = 2;

enum class GpuWait : unsigned { kGreaterOrEqual = 0, kEqual = 1, kAnd = 2 };

// One kernel launch. `kernel` is an index into the table of kernels/cuda/kernels.h. The argument is
// one plain struct. It is copied during the call (and into the graph during a capture).
struct GpuLaunch {
  int kernel = 0;
  unsigned grid = 1;   // CTAs
  unsigned block = 1;  // threads per CTA
  std::size_t shared_bytes = 0;
  const void* arguments = nullptr;
  std::size_t argument_bytes = 0;
  bool cooperative = false;    // all CTAs are resident at once, or the launch fails
  bool remote_domain = false;  // memory-sync domain for data that leaves the device (sm_90 and up)
};

struct GpuKernelInfo {
  int registers = 0;
  std::size_t local_bytes = 0;  // stack and spills
  std::size_t static_shared_bytes = 0;
  int max_threads = 0;
};

struct GpuApi {
  const char* name;  // "cuda" or "simt"

  // Errors and versions. peek_error: cudaPeekAtLastError; tests check that no sticky error is left.
  const char* (*error_name)(GpuError error);
  const char* (*error_text)(GpuError error);
  GpuError (*last_error)();
  GpuError (*peek_error)();
  GpuError (*driver_version)(int* version);

  // Devices. set_device binds the calling thread; get_device makes no context.
  GpuError (*device_count)(int* count);
  GpuError (*get_device)(int* device);
  GpuError (*set_device)(int device);
  GpuError (*attribute)(int* value, GpuAttribute which, int device);
  GpuError (*device_name)(char* text, std::size_t size, int device);
  GpuError (*pci_bus_id)(char* text, std::size_t size, int device);  // "0000:01:00.0"
  GpuError (*device_uuid)(unsigned char uuid[16], int device);
  GpuError (*memory_info)(std::size_t* free_bytes, std::size_t* total_bytes);
  GpuError (*synchronize_device)();
  GpuError (*can_access_peer)(int* can, int device, int peer);
  GpuError (*enable_peer_access)(int peer);  // of the current device

  // Memory. free_* accept nullptr.
  GpuError (*allocate)(void** pointer, std::size_t bytes);
  GpuError (*free_memory)(void* pointer);
  GpuError (*allocate_host)(void** pointer, std::size_t bytes, unsigned flags);
  GpuError (*free_host)(void* pointer);
  GpuError (*allocate_managed)(void** pointer, std::size_t bytes);
  GpuError (*register_host)(void* pointer, std::size_t bytes, unsigned flags);
  GpuError (*unregister_host)(void* pointer);
  GpuError (*host_device_pointer)(void** on_device, void* on_host);
  GpuError (*pointer_info)(GpuPointer* info, const void* pointer);
  // For device memory with own_access: whether the device may read and write it.
  GpuError (*may_access)(bool* may, const void* pointer, int device);
  GpuError (*address_range)(void** base, std::size_t* bytes, const void* pointer);
  GpuError (*copy)(void* to, const void* from, std::size_t bytes, GpuCopy kind, GpuStream stream);
  GpuError (*fill)(void* at, int byte, std::size_t bytes, GpuStream stream);

  // Stream-ordered memory of a device's default pool, for tests: the product never allocates it.
  // pool_allow: whether `device` may access past and future memory of the pool of `owner`.
  GpuError (*pool_allocate)(void** pointer, std::size_t bytes, GpuStream stream);
  GpuError (*pool_free)(void* pointer, GpuStream stream);
  GpuError (*pool_allow)(int owner, int device, bool may);

  // Between processes.
  GpuError (*ipc_export)(GpuIpcHandle* handle, void* pointer);  // pointer: base of an allocation
  GpuError (*ipc_open)(void** pointer, const GpuIpcHandle& handle);
  GpuError (*ipc_close)(void* pointer);

  // Virtual memory: allocations that can be shared as file descriptors. May be absent, all at once,
  // together with fabric_*.
  GpuError (*vmm_granularity)(std::size_t* bytes, int device);
  GpuError (*vmm_create)(GpuAllocation* allocation, std::size_t bytes, int device);
  GpuError (*vmm_release)(GpuAllocation allocation);
  GpuError (*vmm_reserve)(void** address, std::size_t bytes, std::size_t alignment);
  GpuError (*vmm_unreserve)(void* address, std::size_t bytes);
  GpuError (*vmm_map)(void* address, std::size_t bytes, GpuAllocation allocation);
  GpuError (*vmm_unmap)(void* address, std::size_t bytes);
  GpuError (*vmm_allow)(void* address, std::size_t bytes, int device);  // read and write
  GpuError (*vmm_export)(int* fd, GpuAllocation allocation);
  GpuError (*vmm_import)(GpuAllocation* allocation, int fd);
  GpuError (*vmm_retain)(GpuAllocation* allocation, void* address);  // the allocation mapped there

  // Virtual memory that processes of other hosts on the same NVLink fabric can map, too. Needs
  // kFabricHandles, and an IMEX channel in /dev, else the result is kGpuNotPermitted.
  GpuError (*fabric_create)(GpuAllocation* allocation, std::size_t bytes, int device);
  GpuError (*fabric_export)(GpuFabricHandle* handle, GpuAllocation allocation);
  GpuError (*fabric_import)(GpuAllocation* allocation, const GpuFabricHandle& handle);

  // GPUDirect: NICs that read and write device memory directly. Each may be absent.
  // A dmabuf file of mapped device memory, in whole host pages. The caller owns fd.
  GpuError (*dmabuf_export)(int* fd, void* address, std::size_t bytes);
  // On return, kernels of the current device see what NICs have written into its memory.
  GpuError (*flush_direct_writes)();

  // Multicast: one address for memory of several devices. All devices must be added before memory
  // is bound or the object is mapped (by vmm_map, vmm_allow). May be absent, all at once.
  GpuError (*multicast_granularity)(std::size_t* bytes, int devices);
  GpuError (*multicast_create)(GpuAllocation* object, std::size_t bytes, int devices);
  GpuError (*multicast_add)(GpuAllocation object, int device);
  GpuError (*multicast_bind)(GpuAllocation object, std::size_t at, GpuAllocation memory,
                             std::size_t memory_at, std::size_t bytes);
  GpuError (*multicast_unbind)(GpuAllocation object, int device, std::size_t at, std::size_t bytes);

  // Streams and events.
  GpuError (*create_stream)(GpuStream* stream, int priority);  // does not wait for the legacy one
  GpuError (*destroy_stream)(GpuStream stream);
  GpuError (*synchronize_stream)(GpuStream stream);
  GpuError (*query_stream)(GpuStream stream);  // kGpuNotReady while work is pending
  GpuError (*priority_range)(int* minimum, int* greatest);
  GpuError (*stream_priority)(GpuStream stream, int* priority);
  GpuError (*stream_device)(GpuStream stream, int* device);
  GpuError (*stream_wait_event)(GpuStream stream, GpuEvent event, GpuEventUse use);
  GpuError (*create_event)(GpuEvent* event, unsigned flags);
  GpuError (*destroy_event)(GpuEvent event);
  GpuError (*record_event)(GpuEvent event, GpuStream stream, GpuEventUse use);
  GpuError (*query_event)(GpuEvent event);
  GpuError (*synchronize_event)(GpuEvent event);
  GpuError (*elapsed_ms)(float* ms, GpuEvent begin, GpuEvent end);
  GpuError (*launch_host)(GpuStream stream, void (*function)(void* data), void* data);

  // Stream memory operations on device memory or registered host memory (device address).
  GpuError (*stream_write32)(GpuStream stream, void* at, std::uint32_t value);
  GpuError (*stream_wait32)(GpuStream stream, void* at, std::uint32_t value, GpuWait how);

  // Graphs. The last four are for tests and the benchmark: the product only joins users' captures.
  GpuError (*capture_info)(GpuStream stream, GpuCaptureInfo* info);
  GpuError (*exchange_capture_mode)(GpuCaptureMode* mode);
  GpuError (*begin_capture)(GpuStream stream, GpuCaptureMode mode);
  GpuError (*end_capture)(GpuStream stream, void** executable);  // also instantiates the graph
  GpuError (*launch_graph)(void* executable, GpuStream stream);
  GpuError (*destroy_graph)(void* executable);

  // Kernels of kernels/cuda. load_kernel: does the lazy work of a first launch in advance.
  GpuError (*load_kernel)(int kernel);
  GpuError (*kernel_info)(GpuKernelInfo* info, int kernel);
  GpuError (*resident_ctas)(int* per_multiprocessor, int kernel, int block, std::size_t shared);
  GpuError (*launch)(const GpuLaunch& launch, GpuStream stream);
};

// The table, or nullptr if ranks can use host memory only. Reads no environment variable.
const GpuApi* gpu_api();
// Why gpu_api() returned nullptr, as a sentence; "" if it returned a table.
const char* gpu_absence();
// Whether it returned nullptr because CUDA_VISIBLE_DEVICES shows this process no device.
bool gpus_are_hidden();

}  // namespace rondo
