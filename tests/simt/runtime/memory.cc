// SPDX-License-Identifier: Apache-2.0
// The emulated libcudart: memory and copies.
#include <cstring>

#include "tests/simt/runtime/entry.h"

using namespace rondo;
using namespace rondo::simt;

namespace {

struct PointerAttributes {  // cudaPointerAttributes
  int type;
  int device;
  void* on_device;
  void* on_host;
  long reserved[8];
};
static_assert(sizeof(PointerAttributes) == 88);

GpuStream stream_of(void* handle) { return static_cast<GpuStream>(handle); }

// Copies rows one after the other.
GpuError copy_rows(char* to, std::size_t to_pitch, const char* from, std::size_t from_pitch,
                   std::size_t width, std::size_t height, int kind, GpuStream stream) {
  for (std::size_t row = 0; row < height; ++row) {
    const GpuError error = calls::copy(to + row * to_pitch, from + row * from_pitch, width,
                                       static_cast<GpuCopy>(kind), stream);
    if (error != kGpuSuccess) return error;
  }
  return kGpuSuccess;
}

}  // namespace

RONDO_CUDART cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  return kept(calls::memory_info(free_bytes, total));
}
RONDO_CUDART cudaMalloc(void** pointer, std::size_t bytes) {
  return kept(calls::allocate(pointer, bytes));
}
RONDO_CUDART cudaFree(void* pointer) { return kept(calls::free_memory(pointer)); }
RONDO_CUDART cudaMallocHost(void** pointer, std::size_t bytes) {
  return kept(calls::allocate_host(pointer, bytes, 0));
}
RONDO_CUDART cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return kept(calls::allocate_host(pointer, bytes, flags));
}
RONDO_CUDART cudaFreeHost(void* pointer) { return kept(calls::free_host(pointer)); }
RONDO_CUDART cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  return kept(calls::allocate_managed(pointer, bytes));
}
RONDO_CUDART cudaMallocAsync(void** pointer, std::size_t bytes, void* stream) {
  return kept(calls::pool_allocate(pointer, bytes, stream_of(stream)));
}
RONDO_CUDART cudaFreeAsync(void* pointer, void* stream) {
  return kept(calls::pool_free(pointer, stream_of(stream)));
}
RONDO_CUDART cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return kept(calls::register_host(pointer, bytes, flags));
}
RONDO_CUDART cudaHostUnregister(void* pointer) { return kept(calls::unregister_host(pointer)); }
RONDO_CUDART cudaHostGetDevicePointer(void** on_device, void* on_host, unsigned) {
  return kept(calls::host_device_pointer(on_device, on_host));
}
RONDO_CUDART cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  GpuPointer info;
  if (const GpuError error = calls::pointer_info(&info, pointer)) return kept(error);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type = static_cast<int>(info.kind);
  attributes->device = info.device;
  attributes->on_device = info.on_device, attributes->on_host = info.on_host;
  return kGpuSuccess;
}

RONDO_CUDART cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  return kept(calls::copy_and_wait(to, from, bytes, static_cast<GpuCopy>(kind)));
}
RONDO_CUDART cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind,
                             void* stream) {
  return kept(calls::copy(to, from, bytes, static_cast<GpuCopy>(kind), stream_of(stream)));
}
RONDO_CUDART cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                 void* stream) {
  return kept(calls::copy(to, from, bytes, GpuCopy::kAny, stream_of(stream)));
}
RONDO_CUDART cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return kept(calls::copy_and_wait(to, from, bytes, GpuCopy::kAny));
}
RONDO_CUDART cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                               std::size_t from_pitch, std::size_t width, std::size_t height,
                               int kind, void* stream) {
  return kept(copy_rows(static_cast<char*>(to), to_pitch, static_cast<const char*>(from),
                        from_pitch, width, height, kind, stream_of(stream)));
}
RONDO_CUDART cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                          std::size_t width, std::size_t height, int kind) {
  const GpuError error = copy_rows(static_cast<char*>(to), to_pitch, static_cast<const char*>(from),
                                   from_pitch, width, height, kind, kLegacyStream);
  return kept(error != kGpuSuccess ? error : calls::synchronize_stream(kLegacyStream));
}
RONDO_CUDART cudaMemset(void* at, int value, std::size_t bytes) {
  return kept(calls::fill(at, value, bytes, kLegacyStream));
}
RONDO_CUDART cudaMemsetAsync(void* at, int value, std::size_t bytes, void* stream) {
  return kept(calls::fill(at, value, bytes, stream_of(stream)));
}

RONDO_CUDART cudaIpcGetMemHandle(GpuIpcHandle* handle, void* pointer) {
  return kept(calls::ipc_export(handle, pointer));
}
RONDO_CUDART cudaIpcOpenMemHandle(void** pointer, GpuIpcHandle handle, unsigned) {
  return kept(calls::ipc_open(pointer, handle));
}
RONDO_CUDART cudaIpcCloseMemHandle(void* pointer) { return kept(calls::ipc_close(pointer)); }
