// SPDX-License-Identifier: Apache-2.0
// The calls of the emulated GPU, with the signatures of base/gpu.h's table. They return CUDA's
// errors but do not keep a last error: table.cc and runtime/ add that as each of them guarantees.
#pragma once

#include "base/gpu.h"
#include "tests/simt/machine/grid.h"

namespace rondo::simt::calls {

GpuError device_count(int* count);
GpuError get_device(int* device);
GpuError set_device(int device);
GpuError attribute(int* value, GpuAttribute which, int device);
GpuError device_name(char* text, std::size_t size, int device);
GpuError pci_bus_id(char* text, std::size_t size, int device);
GpuError device_uuid(unsigned char uuid[16], int device);
GpuError memory_info(std::size_t* free_bytes, std::size_t* total_bytes);
GpuError synchronize_device();
GpuError can_access_peer(int* can, int device, int peer);
GpuError enable_peer_access(int peer);
GpuError disable_peer_access(int peer);

GpuError allocate(void** pointer, std::size_t bytes);
GpuError free_memory(void* pointer);
GpuError allocate_host(void** pointer, std::size_t bytes, unsigned flags);
GpuError free_host(void* pointer);
GpuError allocate_managed(void** pointer, std::size_t bytes);
GpuError register_host(void* pointer, std::size_t bytes, unsigned flags);
GpuError unregister_host(void* pointer);
GpuError host_device_pointer(void** on_device, void* on_host);
GpuError pointer_info(GpuPointer* info, const void* pointer);
GpuError may_access(bool* may, const void* pointer, int device);
GpuError address_range(void** base, std::size_t* bytes, const void* pointer);
GpuError copy(void* to, const void* from, std::size_t bytes, GpuCopy kind, GpuStream stream);
GpuError copy_and_wait(void* to, const void* from, std::size_t bytes, GpuCopy kind);
GpuError fill(void* at, int byte, std::size_t bytes, GpuStream stream);

GpuError pool_allocate(void** pointer, std::size_t bytes, GpuStream stream);
GpuError pool_free(void* pointer, GpuStream stream);
GpuError pool_allow(int owner, int device, bool may);

GpuError ipc_export(GpuIpcHandle* handle, void* pointer);
GpuError ipc_open(void** pointer, const GpuIpcHandle& handle);
GpuError ipc_close(void* pointer);

GpuError vmm_granularity(std::size_t* bytes, int device);
GpuError vmm_create(GpuAllocation* allocation, std::size_t bytes, int device);
GpuError vmm_release(GpuAllocation allocation);
GpuError vmm_reserve(void** address, std::size_t bytes, std::size_t alignment);
GpuError vmm_unreserve(void* address, std::size_t bytes);
GpuError vmm_map(void* address, std::size_t bytes, GpuAllocation allocation);
GpuError vmm_unmap(void* address, std::size_t bytes);
GpuError vmm_allow(void* address, std::size_t bytes, int device);
GpuError vmm_export(int* fd, GpuAllocation allocation);
GpuError vmm_import(GpuAllocation* allocation, int fd);
GpuError vmm_retain(GpuAllocation* allocation, void* address);

GpuError fabric_create(GpuAllocation* allocation, std::size_t bytes, int device);
GpuError fabric_export(GpuFabricHandle* handle, GpuAllocation allocation);
GpuError fabric_import(GpuAllocation* allocation, const GpuFabricHandle& handle);

GpuError dmabuf_export(int* fd, void* address, std::size_t bytes);
GpuError flush_direct_writes();

GpuError multicast_granularity(std::size_t* bytes, int devices);
GpuError multicast_create(GpuAllocation* object, std::size_t bytes, int devices);
GpuError multicast_add(GpuAllocation object, int device);
GpuError multicast_bind(GpuAllocation object, std::size_t at, GpuAllocation memory,
                        std::size_t memory_at, std::size_t bytes);
GpuError multicast_unbind(GpuAllocation object, int device, std::size_t at, std::size_t bytes);

GpuError create_stream(GpuStream* stream, int priority);
GpuError create_stream_with(GpuStream* stream, int priority, bool waits_for_legacy);
GpuError destroy_stream(GpuStream stream);
GpuError synchronize_stream(GpuStream stream);
GpuError query_stream(GpuStream stream);
GpuError priority_range(int* minimum, int* greatest);
GpuError stream_priority(GpuStream stream, int* priority);
GpuError stream_device(GpuStream stream, int* device);
GpuError stream_wait_event(GpuStream stream, GpuEvent event, GpuEventUse use);
GpuError create_event(GpuEvent* event, unsigned flags);
GpuError destroy_event(GpuEvent event);
GpuError record_event(GpuEvent event, GpuStream stream, GpuEventUse use);
GpuError query_event(GpuEvent event);
GpuError synchronize_event(GpuEvent event);
GpuError elapsed_ms(float* ms, GpuEvent begin, GpuEvent end);
GpuError launch_host(GpuStream stream, void (*function)(void* data), void* data);
GpuError stream_write32(GpuStream stream, void* at, std::uint32_t value);
GpuError stream_wait32(GpuStream stream, void* at, std::uint32_t value, GpuWait how);

GpuError capture_info(GpuStream stream, GpuCaptureInfo* info);
GpuError exchange_capture_mode(GpuCaptureMode* mode);
GpuError begin_capture(GpuStream stream, GpuCaptureMode mode);
// `graph` is a Graph, or nullptr after an error.
GpuError end_capture(GpuStream stream, void** graph);
GpuError instantiate(void** executable, void* graph);  // makes its own copy
GpuError launch_graph(void* graph, GpuStream stream);
GpuError destroy_graph(void* executable);
GpuError forget_graph(void* graph);  // drops a graph that is no executable; no capture check

// A kernel with its body; the table finds it by number.
struct Kernel {
  const char* name;
  void (*body)(const void* arguments);
  int max_threads;
  unsigned registers = kUsualRegisters;
  bool lazy = false;  // loaded on each device by load_kernel() or by its first launch
};
GpuError load_kernel(const Kernel& kernel);  // on the current device
GpuError resident_ctas(int* per_multiprocessor, const Kernel& kernel, int block,
                       std::size_t shared);
GpuError launch_kernel(const Kernel& kernel, const GpuLaunch& launch, GpuStream stream);

GpuError& last_error();  // of this thread; set only by runtime/
const char* error_name(GpuError error);
const char* error_text(GpuError error);

}  // namespace rondo::simt::calls
