// DeviceConnections: the slots and counters of a communicator whose ranks live on CUDA devices of
// this process, for the kernels over connections (kernels/cuda/connected.h).
//
// Made once, with the communicator: a ring over rank numbers and the double tree, on every channel,
// for every protocol. Slots lie in the receiver's memory where the sender's device reaches it, else
// in pinned host memory that both reach. Guarantees: all of it zeroed and in place when make()
// returns, freed by the destructor (after the kernels that use it). Cost: per rank and channel at
// most 5 connections of slots * (slot_bytes + 16 KiB, and 32 KiB where LL128 is allowed); one
// allocation a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "kernels/cuda/connected_args.h"

namespace rondo::gpu {

struct ConnectionShape {
  int channels = 1;
  int slots = 4;
  std::uint64_t slot_bytes = 64 << 10;  // of Simple; a multiple of 16
  std::uint8_t wires = ~0;              // bit Wire: those that get slots
};

class DeviceConnections {
 public:
  // devices[r]: where rank r lives; reaches(a, b): whether device a can use device b's memory.
  // Peer access must be enabled where it does.
  static Result<std::unique_ptr<DeviceConnections>> make(
      const std::vector<int>& devices, const std::vector<std::vector<bool>>& reaches,
      const ConnectionShape& shape);
  ~DeviceConnections();
  DeviceConnections(const DeviceConnections&) = delete;
  DeviceConnections& operator=(const DeviceConnections&) = delete;

  const ConnectionShape& shape() const { return shape_; }
  cuda::DeviceEnd* ends(int rank) const;        // in the rank's device memory
  cuda::Control* control(int rank) const;       // as its kernels see it
  cuda::Control& host_control(int rank) const;  // as the host does

 private:
  // A place in the memory of a rank, or of the host (rank kHost).
  struct Place {
    int home = kHost;
    std::uint64_t offset = 0;
  };
  struct Edge {
    int from, to, lane;
    int out_index, in_index;               // among the ends of `from` and of `to`
    std::vector<Place> slots, tail, head;  // by channel * kWires + wire
  };
  static constexpr int kHost = -1;

  DeviceConnections(std::vector<int> devices, const ConnectionShape& shape);
  void add_edge(int from, int to, int lane);
  void place_all(const std::vector<std::vector<bool>>& reaches);
  Place take(int home, std::uint64_t bytes);
  Done allocate();
  Done write_ends();
  std::byte* address(const Place& place, int rank) const;  // as rank's kernels see it
  std::uint64_t bytes_of_slots(int wire) const;
  std::uint64_t bytes_of_ends() const;

  const GpuApi& api_;
  const std::vector<int> devices_;
  const ConnectionShape shape_;
  std::vector<Edge> edges_;
  std::vector<std::uint64_t> bytes_;  // by rank; ends come first
  std::uint64_t host_bytes_ = 0;      // controls come first
  std::vector<std::byte*> memory_;    // by rank
  std::byte* host_ = nullptr;
  std::vector<std::byte*> host_on_device_;  // by rank
};

}  // namespace rondo::gpu
