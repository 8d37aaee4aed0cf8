// SPDX-License-Identifier: Apache-2.0
// measure_link(): the rate of messages between two ranks of a team, with their data checked, in a
// communicator of the two. The other ranks wait, so nothing else moves.
//
// Meetings makes communicators of a team's processes, one rank each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/backend.h"
#include "bench/lane.h"
#include "bench/team.h"

namespace rondo::bench {

class Meetings {
 public:
  Meetings(BenchProcesses& team, const rondo_launch_t& launch, MakeBackend make_backend);

  BenchProcesses& team() { return team_; }
  const Options& options() const { return options_; }
  // All processes call this: the unique id that `maker` has made.
  Result<ncclUniqueId> id_of(int maker);
  // This process becomes rank `number` of a communicator of `ranks`, on its device if it has one.
  Result<std::unique_ptr<Lane>> join(int number, int ranks, const ncclUniqueId& id);

 private:
  BenchProcesses& team_;
  const rondo_launch_t& launch_;
  const MakeBackend make_backend_;
  Options options_;
};

struct LinkRate {
  int from = 0, to = 0;
  bool across = false;      // between hosts
  double gbs = 0;           // each way at once, the best of several messages
  double promised_gbs = 0;  // 0: unknown
  bool by_ports = false;    // the promise is that of the network's ports, else the cost model's
  std::uint64_t wrong = 0;  // elements
  std::string example;
};

// All processes call this, with the same `from`, `to` and `across`. Sets the other fields alike on
// all. The error of a rank that fails is the error of all.
Status measure_link(Meetings& meetings, std::size_t bytes, LinkRate* link);

}  // namespace rondo::bench
