// Placement: which device each rank of the benchmark lives on, and what the devices could reach.
#pragma once

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

// Ranks of a host fill its devices in order: --ranks-per-gpu on each, or spread evenly.
class Placement {
 public:
  Placement(const Options& options, const rondo_launch_t& launch, int processes)
      : options_(options), launch_(launch), processes_(processes) {}

  int processes_here() const;
  int ranks_here() const;
  // Why this command line does not fit this host, or "".
  std::string misfit() const;
  // -1: host memory
  int device_of(int thread, int lane) const;

  // A line for each of a thread's lanes, for the table of ranks; the first of this process to
  // live on a device measures its copies. No line has what %roof needs (bench/roofline.h) where the
  // table is nccl-tests'.
  Result<std::string> describe(std::span<const std::unique_ptr<Lane>> lanes);

 private:
  const Options& options_;
  const rondo_launch_t& launch_;
  const int processes_;
  std::mutex mutex_;
  std::set<int> measured_;  // devices
};

// What all members described, in rank order.
std::vector<Rank> ranks_of(const std::vector<std::string>& described);

// Lines of the preamble: what %roof is of; "" where nothing was measured.
std::string speeds_of(std::span<const Rank> ranks);

}  // namespace rondo::bench
