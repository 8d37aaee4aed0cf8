// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/gpu_cuda.h"

namespace rondo::cuda {
namespace {

Driver the_driver{};

// The CUDA 12.0 version of every function: the oldest driver that the static runtime accepts.
constexpr unsigned kDriverVersion = 12000;
constexpr unsigned kMulticastVersion = 12010;

template <class F>
bool find(F& function, const char* name, unsigned version = kDriverVersion) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &pointer, version, cudaEnableDefault, &found);
  if (error != cudaSuccess) cudaGetLastError();
  function = reinterpret_cast<F>(pointer);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess;
}

// CU_MEM_HANDLE_TYPE_FABRIC, which CUDA 12.3 introduced.
constexpr auto kFabricHandle = static_cast<CUmemAllocationHandleType>(8);

// Device memory of one device that can be exported as handles of this type, and that adapters may
// read and write if the device supports it.
CUmemAllocationProp shareable(
    int device, CUmemAllocationHandleType handles = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = handles;
  int direct = 0;
  if (driver().attribute(&direct, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                         device) == CUDA_SUCCESS &&
      direct != 0)
    properties.allocFlags.gpuDirectRDMACapable = 1;
  return properties;
}

CUdeviceptr address_of(void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

GpuError create(GpuAllocation* allocation, std::size_t bytes,
                const CUmemAllocationProp& properties) {
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver().create(&handle, bytes, &properties, 0);
  *allocation = handle;
  return result;
}

GpuError import(GpuAllocation* allocation, void* from, CUmemAllocationHandleType type) {
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver().import_handle(&handle, from, type);
  *allocation = handle;
  return result;
}

}  // namespace

const Driver& driver() { return the_driver; }

const char* load_driver() {
  Driver& d = the_driver;
#define RONDO_FIND(member, name) \
  if (!find(d.member, #name)) return #name
  RONDO_FIND(attribute, cuDeviceGetAttribute);
  RONDO_FIND(device_name, cuDeviceGetName);
  RONDO_FIND(device_uuid, cuDeviceGetUuid);
  RONDO_FIND(address_range, cuMemGetAddressRange);
  RONDO_FIND(write32, cuStreamWriteValue32);
  RONDO_FIND(wait32, cuStreamWaitValue32);
  RONDO_FIND(granularity, cuMemGetAllocationGranularity);
  RONDO_FIND(create, cuMemCreate);
  RONDO_FIND(release, cuMemRelease);
  RONDO_FIND(reserve, cuMemAddressReserve);
  RONDO_FIND(unreserve, cuMemAddressFree);
  RONDO_FIND(map, cuMemMap);
  RONDO_FIND(unmap, cuMemUnmap);
  RONDO_FIND(set_access, cuMemSetAccess);
  RONDO_FIND(export_handle, cuMemExportToShareableHandle);
  RONDO_FIND(import_handle, cuMemImportFromShareableHandle);
  RONDO_FIND(retain, cuMemRetainAllocationHandle);
  RONDO_FIND(pointer_attribute, cuPointerGetAttribute);
  RONDO_FIND(pointer_attributes, cuPointerGetAttributes);
  RONDO_FIND(mapping_access, cuMemGetAccess);
  RONDO_FIND(pool_access, cuMemPoolGetAccess);
#undef RONDO_FIND
  if (!find(d.range_handle, "cuMemGetHandleForAddressRange")) d.range_handle = nullptr;
  if (!find(d.flush_direct, "cuFlushGPUDirectRDMAWrites")) d.flush_direct = nullptr;
  // The member that fill_multicast() checks is found last.
  if (!find(d.multicast_granularity, "cuMulticastGetGranularity", kMulticastVersion) ||
      !find(d.multicast_create, "cuMulticastCreate", kMulticastVersion) ||
      !find(d.multicast_add, "cuMulticastAddDevice", kMulticastVersion) ||
      !find(d.multicast_bind, "cuMulticastBindMem", kMulticastVersion) ||
      !find(d.multicast_unbind, "cuMulticastUnbind", kMulticastVersion))
    d.multicast_unbind = nullptr;
  return nullptr;
}

void fill_vmm(GpuApi& api) {
  api.vmm_granularity = [](std::size_t* bytes, int device) -> GpuError {
    const CUmemAllocationProp properties = shareable(device);
    return driver().granularity(bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  };
  api.vmm_create = [](GpuAllocation* allocation, std::size_t bytes, int device) -> GpuError {
    return create(allocation, bytes, shareable(device));
  };
  api.vmm_release = [](GpuAllocation allocation) -> GpuError {
    return driver().release(allocation);
  };
  api.vmm_reserve = [](void** address, std::size_t bytes, std::size_t alignment) -> GpuError {
    return driver().reserve(reinterpret_cast<CUdeviceptr*>(address), bytes, alignment, 0, 0);
  };
  api.vmm_unreserve = [](void* address, std::size_t bytes) -> GpuError {
    return driver().unreserve(address_of(address), bytes);
  };
  api.vmm_map = [](void* address, std::size_t bytes, GpuAllocation allocation) -> GpuError {
    return driver().map(address_of(address), bytes, 0, allocation, 0);
  };
  api.vmm_unmap = [](void* address, std::size_t bytes) -> GpuError {
    return driver().unmap(address_of(address), bytes);
  };
  api.vmm_allow = [](void* address, std::size_t bytes, int device) -> GpuError {
    CUmemAccessDesc access{};
    access.location = shareable(device).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return driver().set_access(address_of(address), bytes, &access, 1);
  };
  api.vmm_export = [](int* fd, GpuAllocation allocation) -> GpuError {
    return driver().export_handle(fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  };
  api.vmm_import = [](GpuAllocation* allocation, int fd) -> GpuError {
    return import(allocation, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  };
  api.vmm_retain = [](GpuAllocation* allocation, void* address) -> GpuError {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = driver().retain(&handle, address);
    *allocation = handle;
    return result;
  };
}

void fill_fabric(GpuApi& api) {
  api.fabric_create = [](GpuAllocation* allocation, std::size_t bytes, int device) -> GpuError {
    return create(allocation, bytes, shareable(device, kFabricHandle));
  };
  api.fabric_export = [](GpuFabricHandle* handle, GpuAllocation allocation) -> GpuError {
    return driver().export_handle(handle, allocation, kFabricHandle, 0);
  };
  api.fabric_import = [](GpuAllocation* allocation, const GpuFabricHandle& handle) -> GpuError {
    GpuFabricHandle copy = handle;
    return import(allocation, &copy, kFabricHandle);
  };
}

void fill_direct(GpuApi& api) {
  if (driver().range_handle != nullptr)
    api.dmabuf_export = [](int* fd, void* address, std::size_t bytes) -> GpuError {
      return driver().range_handle(fd, address_of(address), bytes,
                                   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    };
  if (driver().flush_direct != nullptr)
    api.flush_direct_writes = []() -> GpuError {
      return driver().flush_direct(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                   CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    };
}

void fill_multicast(GpuApi& api) {
  if (driver().multicast_unbind == nullptr) return;
  api.multicast_granularity = [](std::size_t* bytes, int devices) -> GpuError {
    CUmulticastObjectProp properties{};
    properties.numDevices = static_cast<unsigned>(devices);
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return driver().multicast_granularity(bytes, &properties, CU_MULTICAST_GRANULARITY_MINIMUM);
  };
  api.multicast_create = [](GpuAllocation* object, std::size_t bytes, int devices) -> GpuError {
    CUmulticastObjectProp properties{};
    properties.numDevices = static_cast<unsigned>(devices);
    properties.size = bytes;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = driver().multicast_create(&handle, &properties);
    *object = handle;
    return result;
  };
  api.multicast_add = [](GpuAllocation object, int device) -> GpuError {
    return driver().multicast_add(object, device);
  };
  api.multicast_bind = [](GpuAllocation object, std::size_t at, GpuAllocation memory,
                          std::size_t memory_at, std::size_t bytes) -> GpuError {
    return driver().multicast_bind(object, at, memory, memory_at, bytes, 0);
  };
  api.multicast_unbind = [](GpuAllocation object, int device, std::size_t at,
                            std::size_t bytes) -> GpuError {
    return driver().multicast_unbind(object, device, at, bytes);
  };
}

cudaError_t capture_status(cudaStream_t stream, cudaStreamCaptureStatus* status,
                           unsigned long long* id) {
#if CUDART_VERSION >= 13000
  return cudaStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
#else
  return cudaStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr);
#endif
}

}  // namespace rondo::cuda
