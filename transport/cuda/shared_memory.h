// Device memory that another process maps: a virtual-memory allocation as a file descriptor, or
// cudaMalloc's as a CUDA IPC handle.
//
// Guarantees: a mapping of the first kind keeps the memory alive, whatever its owner does; of the
// second only while the owner lives. Nothing of it is illegal while streams capture, if the calling
// thread is in relaxed capture mode (RelaxedCapture). Cost: some system calls, once a block.
#pragma once

#include <cstddef>
#include <span>

#include "base/fd.h"
#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

struct SharedHandle {
  Fd file;           // where it is of the first kind
  GpuIpcHandle ipc;  // else
  std::size_t bytes = 0;
};

// `base` is the start of an allocation.
Result<SharedHandle> share_memory(std::byte* base, std::size_t bytes);

struct OpenedMemory {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  bool is_file = false;
};
Result<OpenedMemory> open_memory(const SharedHandle& handle, int device);
// For several devices of this process; of memory of the second kind the first one's.
Result<OpenedMemory> open_memory(const SharedHandle& handle, std::span<const int> devices);
void close_memory(const OpenedMemory& memory);

// Lets this thread make calls that would otherwise end captures of other threads.
class RelaxedCapture {
 public:
  RelaxedCapture() { gpu_api()->exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { gpu_api()->exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  GpuCaptureMode mode_ = GpuCaptureMode::kRelaxed;
};

}  // namespace rondo::gpu
