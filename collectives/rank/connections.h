// SPDX-License-Identifier: Apache-2.0
// Connections: the slot channels of one communicator, made at first use.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "transport/connection.h"
#include "transport/net/remote_links.h"
#include "transport/shm/host_segment.h"

namespace rondo {

// Lanes of a pair of ranks: lanes for collectives come first, then point-to-point messages.
inline constexpr int kPointToPointLane = 2;
inline constexpr int kPutLane = 3;  // puts that cannot be written directly

class Connections {
 public:
  // local_rank: this rank's. locals: for every rank of the communicator its local rank on this
  // host, or -1. links: to ranks on other hosts; null if there are none. light: HostRank::light.
  Connections(std::shared_ptr<shm::HostSegment> segment, int local_rank, std::vector<int> locals,
              RemoteLinks* links, bool light)
      : segment_(std::move(segment)),
        local_rank_(local_rank),
        locals_(std::move(locals)),
        links_(links),
        light_(light) {}

  // From this rank to `peer`, and from `peer` to this rank (ranks of the communicator).
  Result<Connection*> to(int peer, int lane);
  Result<Connection*> from(int peer, int lane);
  std::uint64_t committed_bytes() const { return committed_bytes_; }

 private:
  Result<Connection*> get(int peer, int lane, bool outgoing);

  std::shared_ptr<shm::HostSegment> segment_;
  int local_rank_;
  std::vector<int> locals_;
  RemoteLinks* links_;
  const bool light_;
  std::map<int, Connection> made_;  // by peer, lane and direction
  std::atomic<std::uint64_t> committed_bytes_ = 0;
};

}  // namespace rondo
