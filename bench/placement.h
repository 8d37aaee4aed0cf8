// SPDX-License-Identifier: Apache-2.0
// Placement: assigns a device to each rank of the benchmark, and measures the devices' copies.
#pragma once

#include <sched.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/launch_env.h"
#include "bench/lane.h"
#include "bench/report.h"

namespace rondo::bench {

// --bind: binds the calling thread to CPU number `turn` (modulo their count) of those that it may
// use. Call it after joining, so that the library counts all CPUs. If the kernel refuses, nothing
// changes.
inline void bind_to_cpu(int turn) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = turn % std::max(CPU_COUNT(&allowed), 1);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Binds the calling thread; the destructor restores its CPUs.
class Bound {
 public:
  explicit Bound(int turn) {
    sched_getaffinity(0, sizeof before_, &before_);
    bind_to_cpu(turn);
  }
  ~Bound() { sched_setaffinity(0, sizeof before_, &before_); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_{};
};

// Ranks of a host fill its devices in order: --ranks-per-gpu on each, or spread evenly.
class Placement {
 public:
  Placement(const Options& options, const rondo_launch_t& launch, int processes)
      : options_(options), launch_(launch), processes_(processes) {}

  int processes_here() const;
  int ranks_here() const;
  // Why this command line does not fit this host; "" if it fits.
  std::string misfit() const;
  // -1: host memory
  int device_of(int thread, int lane) const;

  // A line for each lane of a thread, for the table of ranks. The first rank of this process on a
  // device measures its copies. With --plain the rates that %roof needs (bench/roofline.h) are 0.
  Result<std::string> describe(std::span<const std::unique_ptr<Lane>> lanes);

 private:
  const Options& options_;
  const rondo_launch_t& launch_;
  const int processes_;
  std::mutex mutex_;
  std::set<int> measured_;  // devices
};

// The ranks of all members, parsed from their describe(), in rank order.
std::vector<Rank> ranks_of(const std::vector<std::string>& described);

// Lines of the preamble: the rates that %roof uses; "" if nothing was measured.
std::string speeds_of(std::span<const Rank> ranks);

}  // namespace rondo::bench
