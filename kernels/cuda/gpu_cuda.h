// SPDX-License-Identifier: Apache-2.0
// Driver functions used by the real table of CUDA calls. For gpu_cuda.cc and gpu_cuda_driver.cc.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "base/gpu.h"

namespace rondo::cuda {

struct Driver {
  decltype(&cuDeviceGetAttribute) attribute;
  decltype(&cuDeviceGetName) device_name;
  decltype(&cuDeviceGetUuid) device_uuid;
  decltype(&cuMemGetAddressRange) address_range;
  decltype(&cuStreamWriteValue32) write32;
  decltype(&cuStreamWaitValue32) wait32;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) unreserve;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuMemExportToShareableHandle) export_handle;
  decltype(&cuMemImportFromShareableHandle) import_handle;
  decltype(&cuMemRetainAllocationHandle) retain;
  decltype(&cuPointerGetAttribute) pointer_attribute;
  decltype(&cuPointerGetAttributes) pointer_attributes;
  decltype(&cuMemGetAccess) mapping_access;
  decltype(&cuMemPoolGetAccess) pool_access;
  // Each may be nullptr.
  decltype(&cuMemGetHandleForAddressRange) range_handle;
  decltype(&cuFlushGPUDirectRDMAWrites) flush_direct;
  // nullptr in drivers before 12.1
  decltype(&cuMulticastGetGranularity) multicast_granularity;
  decltype(&cuMulticastCreate) multicast_create;
  decltype(&cuMulticastAddDevice) multicast_add;
  decltype(&cuMulticastBindMem) multicast_bind;
  decltype(&cuMulticastUnbind) multicast_unbind;
};

const Driver& driver();
const char* load_driver();  // name of a function that the driver lacks, or nullptr
void fill_vmm(GpuApi& api);
void fill_fabric(GpuApi& api);
void fill_direct(GpuApi& api);
void fill_multicast(GpuApi& api);
cudaError_t capture_status(cudaStream_t stream, cudaStreamCaptureStatus* status,
                           unsigned long long* id);

}  // namespace rondo::cuda
