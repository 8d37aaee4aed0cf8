// GpuLane: the GPU side of one rank of the benchmark: a device, a stream, a timer of CUDA events, a
// captured graph, and memory. Where there is no device, or RONDO_DEVICE=host, ranks have none and
// live in host memory.
//
// One thread at a time. Functions make their device the thread's current one. Cost: what the CUDA
// calls cost; start_timer(), stop_timer() and mark() are one event each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::bench {

// Devices that ranks live on here; 0: ranks live in host memory.
int gpu_devices();
std::string gpu_name(int device);
std::string gpu_bus_id(int device);
// GB/s that a copy inside the device reads and writes, the median of several, over buffers that its
// L2 does not hold: what the roofline column divides by.
Result<double> gpu_copy_bandwidth(int device);
// GB/s that copies write to another device, the next one that this process sees; 0: there is none.
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

  // How long the stream worked between start and stop; after wait(). marks(n) makes room for the
  // ends of n iterations, mark(i) is one of them.
  Status marks(std::size_t count);
  Status start_timer();
  Status mark(std::size_t iteration);
  Status stop_timer();
  Result<double> elapsed_us() const;
  Result<double> mark_us(std::size_t iteration) const;  // since the mark before, or the start

  // Everything that the lanes' streams are given between the two becomes one graph, which the first
  // of them holds: ranks of one process have to be in one.
  static Status begin_capture(std::span<GpuLane* const> lanes);
  static Status end_capture(std::span<GpuLane* const> lanes);
  Status replay();
  Status drop_graph();

  Result<void*> allocate(std::size_t bytes);
  void free(void* memory);
  // Complete on return.
  Status upload(void* to, const void* from, std::size_t bytes);
  Status download(void* to, const void* from, std::size_t bytes);
  // In the stream's order.
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
