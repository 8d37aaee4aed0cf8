// SPDX-License-Identifier: Apache-2.0
// VirtualMemory: device memory at a reserved address range. The memory can be dropped and brought
// back at the same addresses, so captured graphs and other processes' address tables stay valid.
//
// The memory belongs to this process, or to another one, which exported it as a file descriptor.
// Guarantees: when make() or import() returns, all named devices can read and write it; if a step
// fails, all earlier ones are undone. Dropped memory is free for other uses once every process that
// mapped it has dropped it. One caller at a time; no kernel must access the range while its memory
// is dropped. Cost: some driver calls; sizes are multiples of its granularity (2 MiB today).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

class VirtualMemory {
 public:
  // True if memory of the device can be mapped by address and shared as a file.
  static bool can_make(int device);
  // Allocates at least `bytes` bytes on the device. All devices that can reach it have access.
  static Result<std::unique_ptr<VirtualMemory>> make(std::size_t bytes, int device);
  // Only the address range of make(), as if its memory was dropped; or of import().
  static Result<std::unique_ptr<VirtualMemory>> reserve(std::size_t bytes, int device);
  static Result<std::unique_ptr<VirtualMemory>> reserve_import(std::size_t bytes,
                                                               std::span<const int> devices);
  // Imports `bytes` bytes that another process exported.
  static Result<std::unique_ptr<VirtualMemory>> import(int file, std::size_t bytes,
                                                       std::span<const int> devices);
  // The same for processes of other hosts (fabric_memory.h). Only `device` has access. bytes: a
  // multiple of the granularity.
  static Result<std::unique_ptr<VirtualMemory>> make_for_fabric(std::size_t bytes, int device);
  static Result<std::unique_ptr<VirtualMemory>> import_fabric(const GpuFabricHandle& handle,
                                                              std::size_t bytes, int device);
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  std::byte* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  bool is_mapped() const { return mapped_; }

  Status drop();
  // Maps new, uninitialized memory in place of the dropped memory; with `file`, the other process's
  // memory. No effect if memory is mapped.
  Status bring_back();
  Status bring_back(int file);
  // Like the destructor, but returns the result.
  Status end();

 private:
  VirtualMemory(std::size_t bytes, std::vector<int> devices)
      : api_(*gpu_api()), bytes_(bytes), devices_(std::move(devices)) {}
  Status reserve_range();
  Status map(GpuAllocation allocation, const char* what);

  const GpuApi& api_;
  const std::size_t bytes_;
  const std::vector<int> devices_;  // own memory is on the first one
  std::byte* address_ = nullptr;
  bool mapped_ = false;
};

}  // namespace rondo::gpu
