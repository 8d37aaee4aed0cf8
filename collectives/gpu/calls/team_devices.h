// TeamDevices: the devices of a communicator's ranks. Those of this process have access to each
// other's memory enabled and all kernels loaded.
//
// Unchanged once open. Places number the devices of this process, in the order of their first
// ranks. Cost: loading every kernel, some milliseconds per device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

class TeamDevices {
 public:
  struct Device {
    int device = -1;
    std::vector<int> ranks;  // on this device
    int max_ctas = 1;        // per direct launch
  };

  // by_rank: -1: in another process. graph: of the host, for NCCL_P2P_LEVEL; may be null.
  TeamDevices(std::vector<int> by_rank, std::shared_ptr<const topology::Graph> graph);
  Status open();

  const std::vector<int>& by_rank() const { return by_rank_; }
  int ranks() const { return static_cast<int>(by_rank_.size()); }
  const topology::Graph* graph() const { return graph_.get(); }
  bool is_here(int rank) const { return by_rank_[static_cast<std::size_t>(rank)] >= 0; }
  const std::vector<int>& here() const { return here_; }  // the ranks of this process, ascending
  bool all_are_here() const { return here_.size() == by_rank_.size(); }

  int size() const { return static_cast<int>(devices_.size()); }
  const Device& operator[](int place) const { return devices_[static_cast<std::size_t>(place)]; }
  auto begin() const { return devices_.begin(); }
  auto end() const { return devices_.end(); }
  int place_of(int rank) const;
  const Device& of(int rank) const { return (*this)[place_of(rank)]; }
  std::vector<int> numbers() const;      // CUDA's, by place
  std::vector<int> first_ranks() const;  // by place

  // Whether each device reaches the memory of all others.
  bool all_reach() const { return all_reach_; }

 private:
  Status open_peers(const Device& device);

  const std::vector<int> by_rank_;
  const std::shared_ptr<const topology::Graph> graph_;
  std::vector<int> here_;
  std::vector<Device> devices_;
  bool all_reach_ = true;
};

}  // namespace rondo::gpu
