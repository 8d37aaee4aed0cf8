#include "transport/cuda/shared_memory.h"

#include <sys/stat.h>

#include "transport/cuda/device.h"

namespace rondo::gpu {

Result<SharedHandle> share_memory(std::byte* base, std::size_t bytes) {
  const GpuApi& api = *gpu_api();
  SharedHandle handle;
  handle.bytes = bytes;
  GpuAllocation allocation = 0;
  if (api.vmm_retain != nullptr && api.vmm_retain(&allocation, base) == kGpuSuccess) {
    int fd = -1;
    const GpuError exported = api.vmm_export(&fd, allocation);
    api.vmm_release(allocation);
    RONDO_CHECK_OK(check(exported, "cuMemExportToShareableHandle"));
    handle.file = Fd(fd);
    return handle;
  }
  RONDO_CHECK_OK(check(api.ipc_export(&handle.ipc, base), "cudaIpcGetMemHandle"));
  return handle;
}

Result<OpenedMemory> open_memory(const SharedHandle& handle, int device) {
  return open_memory(handle, std::span<const int>(&device, 1));
}

Result<OpenedMemory> open_memory(const SharedHandle& handle, std::span<const int> devices) {
  const GpuApi& api = *gpu_api();
  OpenedMemory opened;
  opened.bytes = handle.bytes;
  void* at = nullptr;
  if (!handle.file) {
    RONDO_CHECK_OK(check(api.ipc_open(&at, handle.ipc),
                         "cudaIpcOpenMemHandle (containers need a common PID and IPC namespace)"));
    opened.at = static_cast<std::byte*>(at);
    return opened;
  }
  opened.is_file = true;
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(
      check(api.vmm_import(&allocation, handle.file.get()), "cuMemImportFromShareableHandle"));
  GpuError error = api.vmm_reserve(&at, handle.bytes, 0);
  if (error == kGpuSuccess) {
    error = api.vmm_map(at, handle.bytes, allocation);
    if (error == kGpuSuccess) {
      for (const int device : devices)
        if (error == kGpuSuccess) error = api.vmm_allow(at, handle.bytes, device);
      if (error != kGpuSuccess) api.vmm_unmap(at, handle.bytes);
    }
    if (error != kGpuSuccess) api.vmm_unreserve(at, handle.bytes);
  }
  api.vmm_release(allocation);  // the mapping keeps it
  RONDO_CHECK_OK(check(error, "mapping another process's device memory"));
  opened.at = static_cast<std::byte*>(at);
  return opened;
}

void close_memory(const OpenedMemory& memory) {
  if (memory.at == nullptr) return;
  const GpuApi& api = *gpu_api();
  if (!memory.is_file) {
    api.ipc_close(memory.at);
  } else if (api.vmm_unmap(memory.at, memory.bytes) == kGpuSuccess) {
    api.vmm_unreserve(memory.at, memory.bytes);
  }
}

}  // namespace rondo::gpu
