// SPDX-License-Identifier: Apache-2.0
// Placement of a job's ranks, as data: the process, device and host of each rank.
//
//   Layout{{{0, 1}, {2}}, {"a", "b"}}   ranks 0 and 1 on devices 0 and 1, threads of a process on
//                                       host a; rank 2 on device 2, a process on host b
// The hosts are simulated: processes of this machine with different values of NCCL_HOSTID share no
// memory and connect by TCP only.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment.h"

namespace rondo::test {

inline constexpr int kHostMemory = -1;  // no device

struct Layout {
  std::vector<std::vector<int>> processes;  // [process][its rank]: the device, or kHostMemory
  std::vector<std::string> hosts{};         // one per process; empty: one host
  Environment environment{};                // for every process
  std::vector<Environment> of_process{};    // by process, after that; empty: nothing more

  int first_of(int process) const {
    std::size_t ranks = 0;
    for (int p = 0; p < process; ++p) ranks += processes[p].size();
    return static_cast<int>(ranks);
  }
  int ranks() const { return first_of(static_cast<int>(processes.size())); }
  // Number of devices that a machine must have.
  int devices() const {
    int last = kHostMemory;
    for (const auto& process : processes)
      for (const int device : process) last = std::max(last, device);
    return last + 1;
  }
  // A copy with these variables added.
  Layout under(const Environment& more) const {
    Layout layout = *this;
    layout.environment.insert(layout.environment.end(), more.begin(), more.end());
    return layout;
  }
};

struct NamedLayout {
  const char* name;
  Layout layout;
};

// All ranks in one process.
inline Layout as_threads(int n) {
  return {{std::vector<int>(static_cast<std::size_t>(n), kHostMemory)}, {}, {}};
}

// The devices of ranks in separate processes.
enum class Gpus { kNone, kOne, kTwoInTurns, kOneEach };

inline Layout as_processes(int n, Gpus gpus = Gpus::kNone, Environment environment = {}) {
  Layout layout{{}, {}, std::move(environment)};
  for (int rank = 0; rank < n; ++rank) {
    int device = gpus == Gpus::kNone ? kHostMemory : 0;
    if (gpus == Gpus::kTwoInTurns) device = rank % 2;
    if (gpus == Gpus::kOneEach) device = rank;
    layout.processes.push_back({device});
  }
  return layout;
}

}  // namespace rondo::test
