// SPDX-License-Identifier: Apache-2.0
// The table of CUDA calls, filled with the real ones: static cudart, and driver entry points that
// are looked up by name and version, so that the library loads without a driver.
#include "kernels/cuda/gpu_cuda.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>

#include "base/gpu.h"
#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/kernels.h"

namespace rondo {
namespace {

using cuda::driver;

static_assert(kGpuNotReady == cudaErrorNotReady && kGpuOutOfMemory == cudaErrorMemoryAllocation);
static_assert(kGpuInvalidValue == cudaErrorInvalidValue && kGpuNoDevice == cudaErrorNoDevice);
static_assert(kGpuInsufficientDriver == cudaErrorInsufficientDriver);
static_assert(kGpuPeerAlreadyEnabled == cudaErrorPeerAccessAlreadyEnabled);
static_assert(kGpuHostMemoryAlreadyRegistered == cudaErrorHostMemoryAlreadyRegistered);
static_assert(kGpuNotPermitted == cudaErrorNotPermitted &&
              kGpuNotSupported == cudaErrorNotSupported);
static_assert(kGpuCaptureUnsupported == cudaErrorStreamCaptureUnsupported);
static_assert(static_cast<int>(GpuAttribute::kMulticast) ==
              CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
static_assert(static_cast<int>(GpuAttribute::kHostNuma) == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
static_assert(static_cast<int>(GpuAttribute::kPosixHandles) ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(static_cast<int>(GpuMemory::kManaged) == cudaMemoryTypeManaged);
static_assert(sizeof(GpuIpcHandle) == sizeof(cudaIpcMemHandle_t));

// Clears the error, so that the program's own cudaGetLastError() does not see it.
GpuError clean(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

const char* error_name(GpuError e) { return cudaGetErrorName(static_cast<cudaError_t>(e)); }
const char* error_text(GpuError e) { return cudaGetErrorString(static_cast<cudaError_t>(e)); }
GpuError last_error() { return cudaGetLastError(); }
GpuError peek_error() { return cudaPeekAtLastError(); }
GpuError driver_version(int* version) { return clean(cudaDriverGetVersion(version)); }

GpuError device_count(int* count) { return clean(cudaGetDeviceCount(count)); }
GpuError get_device(int* device) { return clean(cudaGetDevice(device)); }
GpuError set_device(int device) { return clean(cudaSetDevice(device)); }
GpuError attribute(int* value, GpuAttribute which, int device) {
  return driver().attribute(value, static_cast<CUdevice_attribute>(which), device);
}
GpuError device_name(char* text, std::size_t size, int device) {
  return driver().device_name(text, static_cast<int>(size), device);
}
GpuError pci_bus_id(char* text, std::size_t size, int device) {
  return clean(cudaDeviceGetPCIBusId(text, static_cast<int>(size), device));
}
GpuError device_uuid(unsigned char uuid[16], int device) {
  CUuuid found;
  const CUresult result = driver().device_uuid(&found, device);
  if (result == CUDA_SUCCESS) std::memcpy(uuid, found.bytes, sizeof(found.bytes));
  return result;
}
GpuError memory_info(std::size_t* free_bytes, std::size_t* total_bytes) {
  return clean(cudaMemGetInfo(free_bytes, total_bytes));
}
GpuError synchronize_device() { return clean(cudaDeviceSynchronize()); }
GpuError can_access_peer(int* can, int device, int peer) {
  return clean(cudaDeviceCanAccessPeer(can, device, peer));
}
GpuError enable_peer_access(int peer) { return clean(cudaDeviceEnablePeerAccess(peer, 0)); }

GpuError allocate(void** pointer, std::size_t bytes) { return clean(cudaMalloc(pointer, bytes)); }
GpuError free_memory(void* pointer) { return clean(cudaFree(pointer)); }
GpuError allocate_host(void** pointer, std::size_t bytes, unsigned flags) {
  return clean(cudaHostAlloc(pointer, bytes, flags));
}
GpuError free_host(void* pointer) { return clean(cudaFreeHost(pointer)); }
GpuError allocate_managed(void** pointer, std::size_t bytes) {
  return clean(cudaMallocManaged(pointer, bytes, cudaMemAttachGlobal));
}
GpuError register_host(void* pointer, std::size_t bytes, unsigned flags) {
  return clean(cudaHostRegister(pointer, bytes, flags));
}
GpuError unregister_host(void* pointer) { return clean(cudaHostUnregister(pointer)); }
GpuError host_device_pointer(void** on_device, void* on_host) {
  return clean(cudaHostGetDevicePointer(on_device, on_host, 0));
}
// Identifies device memory with one driver call. Other memory (rare), and threads without a
// context, use the runtime.
GpuError pointer_info(GpuPointer* info, const void* pointer) {
  unsigned kind = 0, managed = 0;
  int device = -1;
  CUdeviceptr on_device = 0, base = 0;
  // Legacy CUDA IPC accepts only memory from cudaMalloc.
  unsigned of_malloc = 0;
  std::size_t bytes = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void* answers[] = {&kind, &managed, &device, &on_device, &base, &bytes, &of_malloc};
  static_assert(std::size(asked) == std::size(answers));
  const CUresult answered = driver().pointer_attributes(std::size(asked), asked, answers,
                                                        reinterpret_cast<CUdeviceptr>(pointer));
  if (answered == CUDA_SUCCESS && kind == CU_MEMORYTYPE_DEVICE && managed == 0) {
    *info = {GpuMemory::kDevice, device, reinterpret_cast<void*>(on_device), nullptr,
             of_malloc == 0};
    if (!info->own_access) info->base = reinterpret_cast<void*>(base), info->bytes = bytes;
    return kGpuSuccess;
  }
  cudaPointerAttributes found{};
  const cudaError_t error = cudaPointerGetAttributes(&found, pointer);
  if (error != cudaSuccess) return clean(error);
  *info = {static_cast<GpuMemory>(found.type), found.device, found.devicePointer,
           found.hostPointer};
  // The driver call failed: the thread had no context yet, or the driver lacks an attribute.
  if (info->kind == GpuMemory::kDevice &&
      driver().pointer_attribute(&of_malloc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                 reinterpret_cast<CUdeviceptr>(pointer)) == CUDA_SUCCESS)
    info->own_access = of_malloc == 0;
  return kGpuSuccess;
}
GpuError may_access(bool* may, const void* pointer, int device) {
  const auto at = reinterpret_cast<CUdeviceptr>(pointer);
  CUmemLocation where{};
  where.type = CU_MEM_LOCATION_TYPE_DEVICE;
  where.id = device;
  CUmemoryPool pool = nullptr;
  const bool pooled =
      driver().pointer_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at) == CUDA_SUCCESS &&
      pool != nullptr;
  CUmemAccess_flags of_pool = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  unsigned long long of_mapping = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const CUresult result = pooled ? driver().pool_access(&of_pool, pool, &where)
                                 : driver().mapping_access(&of_mapping, &where, at);
  const auto flags = pooled ? static_cast<unsigned long long>(of_pool) : of_mapping;
  *may = result == CUDA_SUCCESS && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return kGpuSuccess;
}
GpuError address_range(void** base, std::size_t* bytes, const void* pointer) {
  return driver().address_range(reinterpret_cast<CUdeviceptr*>(base), bytes,
                                reinterpret_cast<CUdeviceptr>(pointer));
}
GpuError copy_rows(void* to, const void* from, const cuda::RowCopy& rows, GpuStream stream) {
  if (rows.rows == 0) return kGpuSuccess;
  return clean(cudaMemcpy2DAsync(static_cast<std::byte*>(to) + rows.at, rows.width,
                                 static_cast<const std::byte*>(from) + rows.at, rows.width,
                                 rows.width, rows.rows, cudaMemcpyDefault, stream));
}
GpuError copy(void* to, const void* from, std::size_t bytes, GpuCopy kind, GpuStream stream) {
  if (kind == GpuCopy::kHostToDevice && cuda::goes_by_rows(bytes)) {
    const cuda::RowCopies rows = cuda::rows_of(bytes);
    const GpuError first = copy_rows(to, from, rows.first, stream);
    return first != kGpuSuccess ? first : copy_rows(to, from, rows.second, stream);
  }
  return clean(cudaMemcpyAsync(to, from, bytes, static_cast<cudaMemcpyKind>(kind), stream));
}
GpuError fill(void* at, int byte, std::size_t bytes, GpuStream stream) {
  return clean(cudaMemsetAsync(at, byte, bytes, stream));
}
GpuError pool_allocate(void** pointer, std::size_t bytes, GpuStream stream) {
  return clean(cudaMallocAsync(pointer, bytes, stream));
}
GpuError pool_free(void* pointer, GpuStream stream) {
  return clean(cudaFreeAsync(pointer, stream));
}
GpuError pool_allow(int owner, int device, bool may) {
  cudaMemPool_t pool = nullptr;
  if (const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, owner); error != cudaSuccess)
    return clean(error);
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = device;
  access.flags = may ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
  return clean(cudaMemPoolSetAccess(pool, &access, 1));
}

GpuError ipc_export(GpuIpcHandle* handle, void* pointer) {
  return clean(cudaIpcGetMemHandle(reinterpret_cast<cudaIpcMemHandle_t*>(handle), pointer));
}
GpuError ipc_open(void** pointer, const GpuIpcHandle& handle) {
  cudaIpcMemHandle_t given;
  std::memcpy(&given, &handle, sizeof(given));
  return clean(cudaIpcOpenMemHandle(pointer, given, cudaIpcMemLazyEnablePeerAccess));
}
GpuError ipc_close(void* pointer) { return clean(cudaIpcCloseMemHandle(pointer)); }

GpuError create_stream(GpuStream* stream, int priority) {
  return clean(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority));
}
GpuError destroy_stream(GpuStream stream) { return clean(cudaStreamDestroy(stream)); }
GpuError synchronize_stream(GpuStream stream) { return clean(cudaStreamSynchronize(stream)); }
GpuError query_stream(GpuStream stream) { return clean(cudaStreamQuery(stream)); }
GpuError priority_range(int* minimum, int* greatest) {
  return clean(cudaDeviceGetStreamPriorityRange(minimum, greatest));
}
GpuError stream_priority(GpuStream stream, int* priority) {
  return clean(cudaStreamGetPriority(stream, priority));
}
GpuError stream_device(GpuStream stream, int* device) {
  return clean(cudaStreamGetDevice(stream, device));
}
GpuError stream_wait_event(GpuStream stream, GpuEvent event, GpuEventUse use) {
  return clean(cudaStreamWaitEvent(stream, event, static_cast<unsigned>(use)));
}
GpuError create_event(GpuEvent* event, unsigned flags) {
  return clean(cudaEventCreateWithFlags(event, flags));
}
GpuError destroy_event(GpuEvent event) { return clean(cudaEventDestroy(event)); }
GpuError record_event(GpuEvent event, GpuStream stream, GpuEventUse use) {
  return clean(cudaEventRecordWithFlags(event, stream, static_cast<unsigned>(use)));
}
GpuError query_event(GpuEvent event) { return clean(cudaEventQuery(event)); }
GpuError synchronize_event(GpuEvent event) { return clean(cudaEventSynchronize(event)); }
GpuError elapsed_ms(float* ms, GpuEvent begin, GpuEvent end) {
  return clean(cudaEventElapsedTime(ms, begin, end));
}
GpuError launch_host(GpuStream stream, void (*function)(void*), void* data) {
  return clean(cudaLaunchHostFunc(stream, function, data));
}
GpuError stream_write32(GpuStream stream, void* at, std::uint32_t value) {
  return driver().write32(stream, reinterpret_cast<CUdeviceptr>(at), value,
                          CU_STREAM_WRITE_VALUE_DEFAULT);
}
GpuError stream_wait32(GpuStream stream, void* at, std::uint32_t value, GpuWait how) {
  return driver().wait32(stream, reinterpret_cast<CUdeviceptr>(at), value,
                         static_cast<unsigned>(how));
}

GpuError capture_info(GpuStream stream, GpuCaptureInfo* info) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  const cudaError_t error = cuda::capture_status(stream, &status, &id);
  if (error == cudaSuccess) *info = {static_cast<GpuCapture>(status), id};
  return clean(error);
}
GpuError exchange_capture_mode(GpuCaptureMode* mode) {
  auto given = static_cast<cudaStreamCaptureMode>(*mode);
  const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&given);
  *mode = static_cast<GpuCaptureMode>(given);
  return clean(error);
}
GpuError begin_capture(GpuStream stream, GpuCaptureMode mode) {
  return clean(cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(mode)));
}
GpuError end_capture(GpuStream stream, void** executable) {
  cudaGraph_t graph = nullptr;
  if (const cudaError_t error = cudaStreamEndCapture(stream, &graph); error != cudaSuccess)
    return clean(error);
  const cudaError_t error =
      cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t*>(executable), graph, 0);
  cudaGraphDestroy(graph);
  return clean(error);
}
GpuError launch_graph(void* executable, GpuStream stream) {
  return clean(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), stream));
}
GpuError destroy_graph(void* executable) {
  return clean(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable)));
}

GpuError kernel_info(GpuKernelInfo* info, int kernel) {
  const void* function = cuda::kernel_entry(kernel).function;
  if (function == nullptr) return kGpuInvalidValue;
  cudaFuncAttributes found{};
  const cudaError_t error = cudaFuncGetAttributes(&found, function);
  if (error == cudaSuccess && info != nullptr)
    *info = {found.numRegs, found.localSizeBytes, found.sharedSizeBytes, found.maxThreadsPerBlock};
  return clean(error);
}
GpuError load_kernel(int kernel) { return kernel_info(nullptr, kernel); }
GpuError resident_ctas(int* per_multiprocessor, int kernel, int block, std::size_t shared) {
  return clean(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      per_multiprocessor, cuda::kernel_entry(kernel).function, block, shared));
}
GpuError launch(const GpuLaunch& launch, GpuStream stream) {
  const cuda::KernelEntry& entry = cuda::kernel_entry(launch.kernel);
  if (entry.function == nullptr || launch.argument_bytes != entry.argument_bytes)
    return kGpuInvalidValue;
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.grid);
  config.blockDim = dim3(launch.block);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (launch.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  if (launch.remote_domain) {
    attributes[config.numAttrs].id = cudaLaunchAttributeMemSyncDomain;
    attributes[config.numAttrs++].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  }
  void* arguments[] = {const_cast<void*>(launch.arguments)};
  return clean(cudaLaunchKernelExC(&config, entry.function, arguments));
}

std::string absence;
bool hidden = false;  // by CUDA_VISIBLE_DEVICES

GpuApi fill_table() {
  GpuApi api{};
  api.name = "cuda";
#define RONDO_GPU_CALL(name) api.name = name
  RONDO_GPU_CALL(error_name), RONDO_GPU_CALL(error_text), RONDO_GPU_CALL(last_error);
  RONDO_GPU_CALL(peek_error), RONDO_GPU_CALL(driver_version), RONDO_GPU_CALL(device_count);
  RONDO_GPU_CALL(get_device), RONDO_GPU_CALL(set_device), RONDO_GPU_CALL(attribute);
  RONDO_GPU_CALL(device_name), RONDO_GPU_CALL(pci_bus_id), RONDO_GPU_CALL(device_uuid);
  RONDO_GPU_CALL(memory_info), RONDO_GPU_CALL(synchronize_device);
  RONDO_GPU_CALL(can_access_peer), RONDO_GPU_CALL(enable_peer_access);
  RONDO_GPU_CALL(allocate), RONDO_GPU_CALL(free_memory), RONDO_GPU_CALL(allocate_host);
  RONDO_GPU_CALL(free_host), RONDO_GPU_CALL(allocate_managed), RONDO_GPU_CALL(register_host);
  RONDO_GPU_CALL(unregister_host), RONDO_GPU_CALL(host_device_pointer);
  RONDO_GPU_CALL(pointer_info), RONDO_GPU_CALL(may_access), RONDO_GPU_CALL(address_range);
  RONDO_GPU_CALL(copy), RONDO_GPU_CALL(fill), RONDO_GPU_CALL(ipc_export);
  RONDO_GPU_CALL(pool_allocate), RONDO_GPU_CALL(pool_free), RONDO_GPU_CALL(pool_allow);
  RONDO_GPU_CALL(ipc_open), RONDO_GPU_CALL(ipc_close), RONDO_GPU_CALL(create_stream),
      RONDO_GPU_CALL(destroy_stream);
  RONDO_GPU_CALL(synchronize_stream), RONDO_GPU_CALL(query_stream);
  RONDO_GPU_CALL(priority_range), RONDO_GPU_CALL(stream_priority), RONDO_GPU_CALL(stream_device);
  RONDO_GPU_CALL(stream_wait_event), RONDO_GPU_CALL(create_event), RONDO_GPU_CALL(destroy_event);
  RONDO_GPU_CALL(record_event), RONDO_GPU_CALL(query_event), RONDO_GPU_CALL(synchronize_event);
  RONDO_GPU_CALL(elapsed_ms), RONDO_GPU_CALL(launch_host), RONDO_GPU_CALL(stream_write32);
  RONDO_GPU_CALL(stream_wait32), RONDO_GPU_CALL(capture_info);
  RONDO_GPU_CALL(exchange_capture_mode), RONDO_GPU_CALL(begin_capture);
  RONDO_GPU_CALL(end_capture), RONDO_GPU_CALL(launch_graph), RONDO_GPU_CALL(destroy_graph);
  RONDO_GPU_CALL(load_kernel), RONDO_GPU_CALL(kernel_info), RONDO_GPU_CALL(resident_ctas);
  RONDO_GPU_CALL(launch);
#undef RONDO_GPU_CALL
  cuda::fill_vmm(api);
  cuda::fill_fabric(api);
  cuda::fill_direct(api);
  cuda::fill_multicast(api);
  return api;
}

const GpuApi* find_api() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    const cudaError_t why = error == cudaSuccess ? cudaErrorNoDevice : error;
    hidden = why == cudaErrorNoDevice && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
    absence = hidden ? "CUDA_VISIBLE_DEVICES shows no CUDA device"
                     : std::string("no CUDA device can be used: ") + cudaGetErrorString(why);
    return nullptr;
  }
  if (const char* missing = cuda::load_driver(); missing != nullptr) {
    absence = std::string("the CUDA driver is too old: it has no ") + missing +
              "; install one for CUDA 12.0 or later";
    return nullptr;
  }
  static const GpuApi api = fill_table();
  return &api;
}

}  // namespace

const GpuApi* gpu_api() {
  static const GpuApi* const api = find_api();
  return api;
}

const char* gpu_absence() {
  gpu_api();
  return absence.c_str();
}

bool gpus_are_hidden() { return gpu_api() == nullptr && hidden; }

}  // namespace rondo
