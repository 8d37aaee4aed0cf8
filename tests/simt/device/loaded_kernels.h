// LoadedKernels: which kernels devices have loaded, and what runs there while one is loaded.
//
// CUDA loads a kernel when it is first launched on a device, unless it was asked for before, and
// may wait for the device meanwhile. A kernel counts as waiting for others once it has spun, in
// this launch or in one before. All of it under the platform's mutex.
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
  // A kernel on the device that is not over and waits for others, or did when it ran before.
  std::shared_ptr<Grid> waiting(int device);

 private:
  struct Launch {
    CommandRef command;
    std::shared_ptr<Grid> grid;
  };
  std::map<Body, std::uint32_t> on_;  // devices, as bits
  std::set<Body> waits_;
  std::vector<Launch> launches_;  // not over
};

}  // namespace rondo::simt
