// Where the ranks of a job are, as data: in which process, on which device, on which host.
//
//   Layout{{{0, 1}, {2}}, {"a", "b"}}   ranks 0 and 1 on devices 0 and 1, threads of a process on
//                                       host a; rank 2 on device 2, a process on host b
// Hosts are pretended: processes of this machine that NCCL_HOSTID tells to be apart share no memory
// and reach each other by TCP only.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment.h"

namespace rondo::test {

inline constexpr int kHostMemory = -1;  // no device

struct Layout {
  std::vector<std::vector<int>> processes;  // [process][rank of it]: its device, or kHostMemory
  std::vector<std::string> hosts{};         // of each process; empty: all on this host
  Environment environment{};                // of every process

  int first_of(int process) const {
    std::size_t ranks = 0;
    for (int p = 0; p < process; ++p) ranks += processes[p].size();
    return static_cast<int>(ranks);
  }
  int ranks() const { return first_of(static_cast<int>(processes.size())); }
  // How many devices a machine must have.
  int devices() const {
    int last = kHostMemory;
    for (const auto& process : processes)
      for (const int device : process) last = std::max(last, device);
    return last + 1;
  }
  // The same with these variables besides.
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

// Which devices ranks in processes of their own are on.
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
