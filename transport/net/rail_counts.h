// SPDX-License-Identifier: Apache-2.0
// add_rails(): adds the traffic of a link to its rank's RailCounters, by port and host of the peer.
//
// For the thread that moves the links; readers in other processes see words. Guarantees: no byte is
// lost: what has no entry of its own counts in the last ones. Cost: a few comparisons and additions
// for each port; nothing is allocated once a link's ports are known.
//
//   add_rails(activity->rails, line.counted_rails, *line.link, moved, {host_of_peer, "Socket"});
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "transport/connection.h"
#include "transport/net/net.h"

namespace rondo::net {

// What a link has added so far.
struct CountedRails {
  RailTraffic moved;  // of a link that does not count
  std::vector<RailTraffic> rails;
  std::vector<RailCounters*> entries;
};

struct RailPeer {
  int host = 0;                // number in the communicator
  std::string_view network{};  // the name of the port where it is unknown
};

// moved: bytes since the last call, for links that do not count themselves.
void add_rails(std::span<RailCounters> counters, CountedRails& counted, const Link& link,
               const RailTraffic& moved, const RailPeer& peer);

}  // namespace rondo::net
