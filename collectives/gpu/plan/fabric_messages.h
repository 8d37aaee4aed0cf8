// SPDX-License-Identifier: Apache-2.0
// FabricMessages: where messages by NVLink between hosts have their counters and slots, in the
// block of a rank that has a fabric handle (ConnectionLayout::kFabric).
//
// First the counters that peers raise, by end (message_args.h); then the slots of what the rank
// receives, for each rank that NVLink joins it to on another host, in the order of ranks. The slots
// exist from init on, so no rank has to ask another host for them. Pure arithmetic: all hosts of a
// clique compute the same. Cost: each query is a loop over the ranks; a rank's slots together are
// at most RONDO_GPU_STAGING.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "collectives/gpu/plan/cliques.h"
#include "collectives/planner/message_shape.h"
#include "kernels/cuda/message_args.h"

namespace rondo::gpu {

// Bytes of a pair's slots: as within a host, but no more than messages use. 0: NVLink joins no
// hosts.
inline std::uint64_t fabric_message_bytes(std::uint64_t staging_bytes,
                                          std::span<const int> clique_of) {
  if (clique_of.empty()) return 0;
  const MessageShape shape =
      message_shape(message_bytes_of_pair(staging_bytes, clique_of.size(), /*pinned=*/false));
  return static_cast<std::uint64_t>(shape.channels) * cuda::kMessageChannelSlots * shape.slot_bytes;
}

class FabricMessages {
 public:
  // pair_bytes: 0 if there are none.
  FabricMessages(HostsOfRanks hosts, std::uint64_t pair_bytes)
      : hosts_(std::move(hosts)), pair_bytes_(pair_bytes) {}

  std::uint64_t pair_bytes() const { return pair_bytes_; }
  // Whether messages between these ranks use this memory.
  bool join(int a, int b) const { return pair_bytes_ > 0 && hosts_.join(a, b); }
  // Whether the rank may import the block of another one.
  bool share_clique(int a, int b) const { return hosts_.share_clique(a, b); }
  // In the rank's block: counters of all channels, as ConnectionLayout::message_counters_at().
  static std::uint64_t counters_at(int peer, int direction) {
    return cuda::kMessageCounterBytes *
           static_cast<std::uint64_t>(cuda::message_end(peer, direction, 0));
  }
  // In the block of `to`: slots of all channels.
  std::uint64_t slots_at(int from, int to) const {
    return counters_at(ranks(), 0) + pair_bytes_ * joined_before(from, to);
  }
  std::uint64_t bytes(int rank) const {
    return joined_before(ranks(), rank) == 0 ? 0 : slots_at(ranks(), rank);
  }
  // Whether a rank of the own host sends or receives in the rank's block.
  bool uses(int rank) const {
    for (int r = 0; r < ranks(); ++r)
      if ((hosts_.is_own(r) || hosts_.is_own(rank)) && join(r, rank)) return true;
    return false;
  }

 private:
  int ranks() const { return static_cast<int>(hosts_.of_rank.size()); }
  std::uint64_t joined_before(int end, int rank) const {
    std::uint64_t joined = 0;
    for (int r = 0; r < end; ++r) joined += join(r, rank) ? 1 : 0;
    return joined;
  }

  HostsOfRanks hosts_;
  std::uint64_t pair_bytes_ = 0;
};

}  // namespace rondo::gpu
