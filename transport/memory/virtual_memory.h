// VirtualMemory: device memory mapped by address: what lies there may go and come back, and its
// addresses stay, so that captured graphs and other processes' tables of them remain right.
//
// The memory is this process's own, or another one's, which gave it as a file descriptor.
// Guarantees: when make() or import() returns, all named devices may read and write it; every step
// that succeeded is undone where a later one fails. What is dropped is free for others once every
// process that has it mapped has dropped it, too. One caller at a time; no kernel may touch the
// range when its memory goes. Cost: some driver calls, at multiples of the driver's granularity
// (2 MiB today).
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
  // Whether memory of the device can be mapped by address and shared as a file.
  static bool can_make(int device);
  // Memory of the device; at least `bytes` bytes. All devices that can reach it may access it.
  static Result<std::unique_ptr<VirtualMemory>> make(std::size_t bytes, int device);
  // Imports `bytes` bytes that another process exported.
  static Result<std::unique_ptr<VirtualMemory>> import(int file, std::size_t bytes,
                                                       std::span<const int> devices);
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  std::byte* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

  Status drop();
  // New memory, of any content, in place of what was dropped; the other process's. They do nothing
  // where there is some.
  Status bring_back();
  Status bring_back(int file);
  // What the destructor does, for those who want to know.
  Status end();

 private:
  VirtualMemory(std::size_t bytes, std::vector<int> devices)
      : api_(*gpu_api()), bytes_(bytes), devices_(std::move(devices)) {}
  Status reserve();
  Status map(GpuAllocation allocation, const char* what);

  const GpuApi& api_;
  const std::size_t bytes_;
  const std::vector<int> devices_;  // the first one's memory it is, where it is this process's own
  std::byte* address_ = nullptr;
  bool mapped_ = false;
};

}  // namespace rondo::gpu
