// SPDX-License-Identifier: Apache-2.0
// Placement: assigns a device to each rank of the benchmark, and measures the devices' copies.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/launch_env.h"
#include "bench/bound.h"
#include "bench/lane.h"
#include "bench/results.h"

namespace rondo::bench {

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
