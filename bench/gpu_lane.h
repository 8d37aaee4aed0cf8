// SPDX-License-Identifier: Apache-2.0
// GpuLane: the GPU of one rank of the benchmark: a device, a stream, a timer of CUDA events, a
// captured graph, and memory. Without a device, or with RONDO_DEVICE=host, ranks have no GpuLane
// and use host memory.
//
// One thread at a time. Functions make their device the thread's current one. Cost: that of the
// CUDA calls; start_timer(), stop_timer() and mark() record one event each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::bench {

// Number of devices for ranks; 0: ranks use host memory.
int gpu_devices();
std::string gpu_name(int device);
std::string gpu_bus_id(int device);
// GB/s, read plus written, of a copy inside the device: the median of several, with buffers larger
// than its L2. The roofline column uses it.
Result<double> gpu_copy_bandwidth(int device);
// GB/s of copies to the next device that this process sees; 0: there is no other device.
Result<double> gpu_link_bandwidth(int device);

class GpuLane {
 public:
  static Result<std::unique_ptr<GpuLane>> make(int device);
  ~GpuLane();
  GpuLane(const GpuLane&) = delete;
  GpuLane& operator=(const GpuLane&) = delete;

  int device() const { return device_; }
  GpuStream stream() const { return stream_; }
  Status bind() const;  // makes the device the thread's current one
  Status wait() const;

  // elapsed_us(): stream time between start and stop; call it after wait(). marks(n) creates events
  // for n iterations; mark(i) records the end of iteration i.
  Status marks(std::size_t count);
  Status start_timer();
  Status mark(std::size_t iteration);
  Status stop_timer();
  Result<double> elapsed_us() const;
  Result<double> mark_us(std::size_t iteration) const;  // since the previous mark, or the start

  // Capture the work on the lanes' streams between the two calls into one graph, which the first
  // lane owns: ranks of one process must be in one graph.
  static Status begin_capture(std::span<GpuLane* const> lanes);
  static Status end_capture(std::span<GpuLane* const> lanes);
  Status replay();
  Status drop_graph();

  Result<void*> allocate(std::size_t bytes);
  void free(void* memory);
  // Synchronous.
  Status upload(void* to, const void* from, std::size_t bytes);
  Status download(void* to, const void* from, std::size_t bytes);
  // In stream order.
  Status copy(void* to, const void* from, std::size_t bytes);

 private:
  explicit GpuLane(int device) : device_(device) {}
  Status moved(void* to, const void* from, std::size_t bytes, GpuCopy kind);

  const int device_;
  GpuStream stream_ = nullptr;
  GpuEvent begin_ = nullptr, end_ = nullptr, order_ = nullptr;
  std::vector<GpuEvent> marks_;
  void* graph_ = nullptr;
};

}  // namespace rondo::bench
