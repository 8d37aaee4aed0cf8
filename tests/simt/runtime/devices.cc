// SPDX-License-Identifier: Apache-2.0
// The emulated libcudart: errors, versions, devices.
#include <cstring>

#include "tests/simt/device/platform.h"
#include "tests/simt/runtime/entry.h"

using namespace rondo;
using namespace rondo::simt;

namespace {

constexpr int kVersion = 13000;

// cudaDeviceProp of CUDA 13: the fields that the emulated device fills, by offset.
constexpr std::size_t kPropertiesBytes = 1008;
struct Field {
  std::size_t offset;
  GpuAttribute source;
};
constexpr Field kFields[] = {
    {308, GpuAttribute::kWarpSize},
    {360, GpuAttribute::kMajor},
    {364, GpuAttribute::kMinor},
    {384, GpuAttribute::kMultiprocessors},
    {392, GpuAttribute::kCanMapHostMemory},
    {588, GpuAttribute::kUnifiedAddressing},
    {596, GpuAttribute::kL2Bytes},
    {604, GpuAttribute::kMaxThreadsPerMultiprocessor},
    {668, GpuAttribute::kCooperativeLaunch},
};

template <class T>
void put(void* properties, std::size_t offset, T value) {
  std::memcpy(static_cast<char*>(properties) + offset, &value, sizeof value);
}

}  // namespace

RONDO_CUDART cudaGetLastError() { return std::exchange(calls::last_error(), kGpuSuccess); }
RONDO_CUDART cudaPeekAtLastError() { return calls::last_error(); }
extern "C" [[gnu::visibility("default")]] const char* cudaGetErrorName(int error) {
  return calls::error_name(error);
}
extern "C" [[gnu::visibility("default")]] const char* cudaGetErrorString(int error) {
  return calls::error_text(error);
}
RONDO_CUDART cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return kGpuSuccess;
}
RONDO_CUDART cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

RONDO_CUDART cudaGetDeviceCount(int* count) { return kept(calls::device_count(count)); }
RONDO_CUDART cudaGetDevice(int* device) { return kept(calls::get_device(device)); }
RONDO_CUDART cudaSetDevice(int device) { return kept(calls::set_device(device)); }
RONDO_CUDART cudaInitDevice(int device, unsigned, unsigned) {
  return kept(calls::set_device(device));
}
RONDO_CUDART cudaDeviceSynchronize() { return kept(calls::synchronize_device()); }
RONDO_CUDART cudaDeviceReset() { return kept(calls::synchronize_device()); }
RONDO_CUDART cudaDeviceGetAttribute(int* value, int which, int device) {
  return kept(calls::attribute(value, static_cast<GpuAttribute>(which), device));
}
RONDO_CUDART cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return kept(calls::pci_bus_id(text, static_cast<std::size_t>(size), device));
}
RONDO_CUDART cudaDeviceGetStreamPriorityRange(int* minimum, int* greatest) {
  return kept(calls::priority_range(minimum, greatest));
}
RONDO_CUDART cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return kept(calls::can_access_peer(can, device, peer));
}
RONDO_CUDART cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return kept(calls::enable_peer_access(peer));
}
RONDO_CUDART cudaDeviceDisablePeerAccess(int peer) {
  return kept(calls::disable_peer_access(peer));
}

RONDO_CUDART cudaGetDeviceProperties(void* properties, int device) {
  std::memset(properties, 0, kPropertiesBytes);
  auto* const name = static_cast<char*>(properties);
  if (const GpuError error = calls::device_name(name, 256, device)) return kept(error);
  calls::device_uuid(reinterpret_cast<unsigned char*>(name) + 256, device);
  put(properties, 288, std::uint64_t{platform().config.memory_mib << 20});
  put(properties, 296, std::uint64_t{48 << 10});
  put(properties, 304, 64 << 10);
  put(properties, 320, 1024);
  put(properties, 568, platform().device_of(device) + 1);  // pciBusID
  put(properties, 576, 0x7fff);                            // pciDomainID
  for (const Field& field : kFields) {
    int value = 0;
    calls::attribute(&value, field.source, device);
    put(properties, field.offset, value);
  }
  return kGpuSuccess;
}
RONDO_CUDART cudaGetDeviceProperties_v2(void* properties, int device) {
  return cudaGetDeviceProperties(properties, device);
}
