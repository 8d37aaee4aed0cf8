// SPDX-License-Identifier: Apache-2.0
// RemotePeer: all links between this rank and one rank on another host. Internal to RemoteLinks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "transport/connection.h"
#include "transport/net/net.h"
#include "transport/net/slot_channel.h"

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

// add_rails(): adds the traffic of a link to its rank's RailCounters, by port and host of the peer.
//
// For the thread that moves the links; readers in other processes see words. Guarantees: no byte is
// lost: what has no entry of its own counts in the last ones. Cost: a few comparisons and additions
// for each port; nothing is allocated once a link's ports are known.
//
//   add_rails(activity->rails, line.counted_rails, *line.link, moved, {host_of_peer, "Socket"});
//
// moved: bytes since the last call, for links that do not count themselves.
void add_rails(std::span<RailCounters> counters, CountedRails& counted, const Link& link,
               const RailTraffic& moved, const RailPeer& peer);

// One link and its slot channels. A line without a link waits for the peer to connect.
struct Line {
  int lane = 0;
  std::optional<SlotSender> out;
  std::optional<SlotReceiver> in;
  MemoryKey out_key = 0;
  MemoryKey in_key = 0;
  std::uint64_t counted_out = 0, counted_in = 0;  // bytes in NetworkCounters
  LinkLosses counted;                             // the same
  CountedRails counted_rails;
  std::unique_ptr<Link> link;  // last, so that it is destroyed before its slots

  bool live() const { return link && !is_over(link->state()); }
  bool ended() const { return link && is_over(link->state()); }
  bool flushed() const { return !out || out->flushed() || ended(); }
  bool progress();

  // Make slots and register them with the network until give_back().
  Status give_sender(Network& network, int peer, const SlotShape& shape);
  Status give_receiver(Network& network, int peer, const SlotShape& shape);
  void give_back(Network& network);  // only after the link was destroyed
};

struct RemotePeer {
  int rank = -1;
  std::vector<std::byte> address;
  std::vector<std::unique_ptr<Line>> lines;
  std::deque<std::vector<std::byte>> unsent_control;  // messages without a free slot or a link
  std::optional<Error> failure;                       // the first one
  std::chrono::steady_clock::time_point failed_at{};
  bool closed = false;  // cause of `failure`: the peer closed a link

  Line* data_line(int lane) const;
  Line* control_line() const;  // the one for sending; null: none is live
  bool has_control() const;    // live or not
  bool flushed() const;
  bool data_flushed() const;  // ignores control messages
  Status error() const;
};

}  // namespace rondo::net
