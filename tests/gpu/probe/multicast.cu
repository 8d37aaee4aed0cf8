// SPDX-License-Identifier: Apache-2.0
// Whether this device supports a multicast object, step by step, and with one device alone.
#include <vector>

#include "asks.h"
#include "bounded.h"

namespace probe {
namespace {

__global__ void add_by_switch(float* multicast, float* sum) {
#if __CUDA_ARCH__ >= 900
  float value;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
               : "=f"(value)
               : "l"(__cvta_generic_to_global(multicast))
               : "memory");
  *sum = value;
  asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(
                   __cvta_generic_to_global(multicast + 32)),
               "f"(value + 1)
               : "memory");
#endif
}

// Reports the result of a step; returns true if the next one makes sense.
bool step(const char* name, CUresult result) {
  put(name, result == CUDA_SUCCESS ? "works" : name_of(result));
  return result == CUDA_SUCCESS;
}

// With the first `devices` devices.
void ask_object(int devices) {
  const auto granularity = PROBE_ENTRY(cuMulticastGetGranularity);
  const auto create = PROBE_ENTRY(cuMulticastCreate);
  const auto add = PROBE_ENTRY(cuMulticastAddDevice);
  const auto bind = PROBE_ENTRY(cuMulticastBindMem);
  const auto allocate = PROBE_ENTRY(cuMemCreate);
  const auto reserve = PROBE_ENTRY(cuMemAddressReserve);
  const auto map = PROBE_ENTRY(cuMemMap);
  const auto allow = PROBE_ENTRY(cuMemSetAccess);
  const std::string of = print("_of_%d", devices);
  const auto named = [&](const char* what) { return what + of; };

  CUmulticastObjectProp properties{};
  properties.numDevices = static_cast<unsigned>(devices);
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.size = 2 << 20;
  std::size_t minimum = 0, recommended = 0;
  if (!step(named("granularity").c_str(),
            granularity(&minimum, &properties, CU_MULTICAST_GRANULARITY_MINIMUM)))
    return;
  granularity(&recommended, &properties, CU_MULTICAST_GRANULARITY_RECOMMENDED);
  put(named("granularity_minimum"), static_cast<double>(minimum), "bytes");
  put(named("granularity_recommended"), static_cast<double>(recommended), "bytes");
  const std::size_t bytes = minimum;
  properties.size = bytes;
  CUmemGenericAllocationHandle object = 0;
  if (!step(named("create").c_str(), create(&object, &properties))) return;
  for (int d = 0; d < devices; ++d)
    if (!step((named("add") + print("_%d", d)).c_str(), add(object, d))) return;
  CUdeviceptr unicast = 0, multicast = 0;
  for (int d = 0; d < devices; ++d) {
    CUmemAllocationProp memory{};
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory.location.id = d;
    memory.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    PROBE(allocate(&handle, bytes, &memory, 0));
    if (!step((named("bind") + print("_%d", d)).c_str(), bind(object, 0, handle, 0, bytes, 0)))
      return;
    CUdeviceptr at = 0;
    const CUmemAccessDesc access{memory.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    PROBE(reserve(&at, bytes, 0, 0, 0));
    PROBE(map(at, bytes, 0, handle, 0));
    PROBE(allow(at, bytes, &access, 1));
    PROBE(cudaSetDevice(d));
    const std::vector<float> ones(bytes / sizeof(float), 1.f);
    PROBE(cudaMemcpy(reinterpret_cast<void*>(at), ones.data(), bytes, cudaMemcpyDefault));
    if (d == 0) unicast = at;
  }
  PROBE(cudaSetDevice(0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  PROBE(reserve(&multicast, bytes, bytes, 0, 0));
  if (!step(named("map").c_str(), map(multicast, bytes, 0, object, 0))) return;
  if (!step(named("allow").c_str(), allow(multicast, bytes, &access, 1))) return;
  auto* const sum = new_pinned<float>(1);
  add_by_switch<<<1, 1>>>(reinterpret_cast<float*>(multicast), sum);
  const cudaError_t error = cudaDeviceSynchronize();
  put(named("multimem"), error != cudaSuccess ? name_of(error) : print("sum %.0f", *sum));
  if (error != cudaSuccess) return;
  float stored = 0;
  PROBE(cudaMemcpy(&stored, reinterpret_cast<void*>(unicast + 32 * sizeof(float)), sizeof(stored),
                   cudaMemcpyDefault));
  const auto all = static_cast<float>(devices);
  check("multicast_sums", *sum == all && stored == all + 1,
        print("of %d devices: sum %.0f, stored %.0f", devices, *sum, stored));
}

}  // namespace

void ask_multicast() {
  const int supported = attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
  put("attribute", supported);
  PROBE(cudaFree(nullptr));
  if (driver_entry("cuMulticastCreate") == nullptr) unsupported("the driver has no multicast");
  if (supported != 1) unsupported("the device's attribute says no");
  ask_object(1);
  if (const int devices = device_count(); devices > 1) ask_object(devices);
  answer("multicast objects, step by step");
}

}  // namespace probe
