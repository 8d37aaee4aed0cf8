// SPDX-License-Identifier: Apache-2.0
// Devices and errors.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"

namespace rondo::simt::calls {
namespace {

bool exists(int number) { return platform().device_of(number) >= 0; }

template <class... Args>
GpuError print(char* text, std::size_t size, fmt::format_string<Args...> format, Args&&... args) {
  if (text == nullptr || size == 0) return kGpuInvalidValue;
  const std::string all = fmt::format(format, std::forward<Args>(args)...);
  const std::size_t length = std::min(all.size(), size - 1);
  std::memcpy(text, all.data(), length);
  text[length] = '\0';
  return kGpuSuccess;
}

struct Attribute {
  GpuAttribute which;
  int value;
};
constexpr Attribute kAttributes[] = {
    {GpuAttribute::kWarpSize, 32},
    {GpuAttribute::kClockKhz, 1980000},
    {GpuAttribute::kCanMapHostMemory, 1},
    {GpuAttribute::kUnifiedAddressing, 1},
    {GpuAttribute::kMajor, 9},
    {GpuAttribute::kMinor, 0},
    {GpuAttribute::kL2Bytes, 50 << 20},
    {GpuAttribute::kMaxThreadsPerMultiprocessor, 2048},
    {GpuAttribute::kPageableMemoryAccess, 0},
    {GpuAttribute::kCanUseHostPointerForRegistered, 0},
    {GpuAttribute::kCooperativeLaunch, 1},
    {GpuAttribute::kMaxSharedPerBlockOptin, 227 << 10},
    {GpuAttribute::kVirtualMemory, 1},
    {GpuAttribute::kPosixHandles, 1},
    {GpuAttribute::kDirectVirtualMemory, 1},
    {GpuAttribute::kDirectMemory, 1},
    {GpuAttribute::kHostNuma, 0},
};

// The attributes in which a device of the other kind differs (kinds=mixed).
constexpr Attribute kOfOtherKind[] = {
    {GpuAttribute::kMajor, 8},
    {GpuAttribute::kMinor, 9},
    {GpuAttribute::kL2Bytes, 48 << 20},
    {GpuAttribute::kMaxThreadsPerMultiprocessor, 1536},
    {GpuAttribute::kMaxSharedPerBlockOptin, 99 << 10},
    {GpuAttribute::kMulticast, 0},
};
bool is_other_kind(int number) {
  return platform().config.mixed && platform().device_of(number) % 2 == 1;
}

struct ErrorText {
  GpuError error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {kGpuSuccess, "cudaSuccess", "no error"},
    {kGpuInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {kGpuOutOfMemory, "cudaErrorMemoryAllocation", "out of memory"},
    {kInitializationError, "cudaErrorInitializationError", "initialization error"},
    {kGpuInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {kGpuNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {kGpuInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {kGpuPeerUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {kGpuInvalidHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {kIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {kGpuNotReady, "cudaErrorNotReady", "device not ready"},
    {kGpuIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {kGpuLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {kGpuPeerAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {kGpuHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {kGpuLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {kCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {kGpuNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {kGpuNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {kGpuCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {kGpuCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {kCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {kCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {kCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {kCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {kCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const ErrorText& row_of(GpuError error) {
  static constexpr ErrorText kUnknown{-1, "cudaErrorUnknown", "unknown error"};
  for (const ErrorText& row : kErrors)
    if (row.error == error) return row;
  return kUnknown;
}

}  // namespace

GpuError& last_error() {
  thread_local GpuError newest = kGpuSuccess;
  return newest;
}
const char* error_name(GpuError error) { return row_of(error).name; }
const char* error_text(GpuError error) { return row_of(error).text; }

GpuError device_count(int* count) {
  *count = static_cast<int>(platform().visible.size());
  return *count == 0 ? kGpuNoDevice : kGpuSuccess;
}
GpuError get_device(int* device) {
  *device = std::max(platform().number_of(current_device()), 0);
  return kGpuSuccess;
}
GpuError set_device(int device) {
  if (!exists(device)) return kGpuInvalidDevice;
  current_device() = platform().device_of(device);
  return platform().trouble();
}

GpuError attribute(int* value, GpuAttribute which, int device) {
  if (!exists(device)) return kGpuInvalidDevice;
  const bool other = is_other_kind(device);
  if (which == GpuAttribute::kMultiprocessors) {
    *value = platform().config.multiprocessors / (other ? 2 : 1);
    return kGpuSuccess;
  }
  for (const Attribute& row : kOfOtherKind) {
    if (!other || row.which != which) continue;
    *value = row.value;
    return kGpuSuccess;
  }
  if (which == GpuAttribute::kMulticast) {
    *value = platform().config.multicast ? 1 : 0;
    return kGpuSuccess;
  }
  if (which == GpuAttribute::kDmabuf) {
    *value = platform().config.dmabuf ? 1 : 0;
    return kGpuSuccess;
  }
  if (which == GpuAttribute::kFabricHandles) {
    *value = platform().config.fabric != 0 ? 1 : 0;
    return kGpuSuccess;
  }
  if (which == GpuAttribute::kDirectFlushes) {
    *value = platform().config.flushes ? kFlushByHost : 0;
    return kGpuSuccess;
  }
  if (which == GpuAttribute::kDirectOrdering) {
    *value = platform().config.ordered_writes ? kOrderedForOwner : 0;
    return kGpuSuccess;
  }
  for (const Attribute& row : kAttributes) {
    if (row.which != which) continue;
    *value = row.value;
    return kGpuSuccess;
  }
  return kGpuInvalidValue;
}

GpuError device_name(char* text, std::size_t size, int device) {
  if (!exists(device)) return kGpuInvalidDevice;
  return print(text, size, is_other_kind(device) ? "Emulated L40" : "Emulated GPU");
}
GpuError pci_bus_id(char* text, std::size_t size, int number) {
  int device = platform().device_of(number);
  if (device < 0) return kGpuInvalidDevice;
  if (const int instances = platform().config.mig) device /= instances;
  const std::vector<std::string>& given = platform().config.bus_ids;
  if (device < static_cast<int>(given.size()))
    return print(text, size, "{}", given[static_cast<std::size_t>(device)]);
  return print(text, size, "{:04x}:{:02x}:00.0", 0x7fff, device + 1);
}
GpuError device_uuid(unsigned char uuid[16], int device) {
  if (!exists(device)) return kGpuInvalidDevice;
  const auto found = uuid_of(platform().device_of(device));
  std::copy(found.begin(), found.end(), uuid);
  return kGpuSuccess;
}

GpuError memory_info(std::size_t* free_bytes, std::size_t* total_bytes) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  *total_bytes = p.config.memory_mib << 20;
  *free_bytes = *total_bytes - p.devices[static_cast<std::size_t>(current_device())].used;
  return kGpuSuccess;
}

GpuError synchronize_device() {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  p.wait_until_idle(lock, current_device());
  return p.trouble();
}

GpuError can_access_peer(int* can, int device, int peer) {
  if (!exists(device) || !exists(peer)) return kGpuInvalidDevice;
  const Platform& p = platform();
  *can = p.reaches(p.device_of(device), p.device_of(peer)) ? 1 : 0;
  return kGpuSuccess;
}

GpuError enable_peer_access(int number) {
  Platform& p = platform();
  const int device = current_device(), peer = p.device_of(number);
  if (peer < 0 || peer == device) return kGpuInvalidDevice;
  if (!p.reaches(device, peer)) return kGpuPeerUnsupported;
  const std::lock_guard lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  std::uint32_t& peers = p.devices[static_cast<std::size_t>(device)].peers;
  if ((peers >> peer & 1) != 0) return kGpuPeerAlreadyEnabled;
  peers |= 1u << peer;
  p.memory.allow_device(device, peer);
  return kGpuSuccess;
}

GpuError disable_peer_access(int number) {
  constexpr GpuError kPeerNotEnabled = 705;
  Platform& p = platform();
  const int peer = p.device_of(number);
  const std::lock_guard lock(p.engine.mutex());
  std::uint32_t& peers = p.devices[static_cast<std::size_t>(current_device())].peers;
  if (peer < 0 || (peers >> peer & 1) == 0) return kPeerNotEnabled;
  peers &= ~(1u << peer);
  return kGpuSuccess;
}

}  // namespace rondo::simt::calls
