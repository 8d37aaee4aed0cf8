// SPDX-License-Identifier: Apache-2.0
// TeamDevice: the device of a team's ranks, with all kernels loaded and access to the memory of the
// process's other devices enabled.
//
// Unchanged once open. Cost: loading every kernel, some milliseconds.
#pragma once

#include <memory>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

class TeamDevice {
 public:
  // by_rank: CUDA's number of the device; -1: the rank is on another device or in another process.
  explicit TeamDevice(std::vector<int> by_rank);
  // beside: the process's devices. graph: of the host, for NCCL_P2P_LEVEL; may be null.
  Status open(const std::vector<int>& beside, const topology::Graph* graph);

  int number() const { return by_rank_[static_cast<std::size_t>(here_.front())]; }
  const std::vector<int>& by_rank() const { return by_rank_; }
  int ranks() const { return static_cast<int>(by_rank_.size()); }
  bool is_here(int rank) const { return by_rank_[static_cast<std::size_t>(rank)] >= 0; }
  const std::vector<int>& here() const { return here_; }  // the ranks on the device, ascending
  bool is_alone() const { return here_.size() == 1; }
  int max_ctas() const { return max_ctas_; }  // per direct launch

 private:
  const std::vector<int> by_rank_;
  std::vector<int> here_;
  int max_ctas_ = 1;
};

}  // namespace rondo::gpu
