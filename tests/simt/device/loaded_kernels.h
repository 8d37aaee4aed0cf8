// SPDX-License-Identifier: Apache-2.0
// LoadedKernels: the kernels loaded on each device, and those that run while another is loaded.
//
// CUDA loads a kernel at its first launch on a device, unless it was loaded explicitly before, and
// loading may wait for the device. A kernel counts as waiting for others once it has spun, in this
// launch or in an earlier one. Guarded by the platform's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/simt/device/command.h"
#include "tests/simt/machine/grid.h"

namespace rondo::simt {

class LoadedKernels {
 public:
  using Body = void (*)(const void* arguments);
  bool has(Body body, int device) const;
  void add(Body body, int device) { on_[body] |= 1u << device; }
  void launched(const CommandRef& command, const std::shared_ptr<Grid>& grid);
  // An unfinished kernel on the device that waits for others, or did so in an earlier launch.
  std::shared_ptr<Grid> waiting(int device);

 private:
  struct Launch {
    CommandRef command;
    std::shared_ptr<Grid> grid;
  };
  std::map<Body, std::uint32_t> on_;  // bit mask of devices
  std::set<Body> waits_;
  std::vector<Launch> launches_;  // unfinished launches
};

}  // namespace rondo::simt
