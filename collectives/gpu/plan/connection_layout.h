// SPDX-License-Identifier: Apache-2.0
// ConnectionLayout: the offsets of the slots, counters and words of a communicator's connections.
//
// Pure arithmetic: every channel has a ring and the double tree over the positions of an order of
// the ranks (channel_orders.h; else their numbers), for every protocol. An order that differs from
// the numbers is stored behind the ends of each rank, for its kernels. The edge's transport says in
// which memory they are (edge_transport.h): with P2P, slots and `tail` in the receiver's memory and
// `head` in the sender's; else all of it in host memory that both reach. So ranks in several
// processes compute the same layout without communication, and only the memory itself has to be
// shared. Cost: per rank and channel at most 5 connections, of which the ring's have slots *
// ring_slot_bytes for Simple and the others slots * slot_bytes; each has slots * 32 KiB for LL, and
// twice that for LL128 if it is allowed; 2 MiB per rank for LL push (ll_push.h), more than 8 ranks
// 256 KiB each, and 16 MiB if several processes share direct kernels (shared_launches.cc).
//
// What must be zeroed before kernels use it comes first in a rank's memory: words, counters, and
// lines, whose old flags would pass for new ones. Where devices can reserve addresses without
// memory, slots by protocol and staging are blocks of their own: each is allocated with the first
// call that uses it (lazy_blocks.h).
//
// Ranks of several hosts: a layout is for one host and has only the edges of its ranks. A
// connection to another host has slots and words on both sides (bounce buffers), which a net proxy
// keeps equal (net_proxy.h): to a kernel, its neighbour is on its own host. The words are in pinned
// memory of the rank; the slots of each direction are also there, or in its device memory. Simple
// only.
//
// If both ranks are in one NVLink clique, the connection is as with P2P, but in a block of device
// memory of its own, which has a fabric handle. Both hosts compute the same offsets there. Messages
// between such ranks come first in that block (FabricMessages).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/gpu/plan/channel_orders.h"
#include "collectives/gpu/plan/edge_transport.h"
#include "collectives/gpu/plan/reach.h"
#include "collectives/planner/message_shape.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/direct_args.h"
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

// FabricMessages: where messages by NVLink between hosts have their counters and slots, in the
// block of a rank that has a fabric handle (ConnectionLayout::kFabric).
//
// First the counters that peers raise, by end (message_args.h); then the slots of what the rank
// receives, for each rank that NVLink joins it to on another host, in the order of ranks. The slots
// exist from init on, so no rank has to ask another host for them. Pure arithmetic: all hosts of a
// clique compute the same. Cost: each query is a loop over the ranks; a rank's slots together are
// at most RONDO_GPU_STAGING.
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

struct ConnectionShape {
  int channels = 1;
  int slots = kUsualSlots;              // LL128 has twice as many (slot_count_of())
  std::uint64_t slot_bytes = 64 << 10;  // of Simple; a multiple of 16
  std::uint64_t ring_slot_bytes = 0;    // the same between neighbours in a ring; 0: no other size
  std::uint8_t protocols = 0xff;        // bit cuda::Protocol: protocols that get slots
  bool ll_push = false;                 // staging for LL push, if all are near
  bool meets = false;  // words and staging for shared direct kernels, if all are near
  // NVLink joins all ranks, of several hosts: memory of both is in the block kFabric.
  bool shares_fabric = false;
  int direct_ctas = kDirectCtasOfGpu;  // maximum for a shared direct kernel
  bool lazy = false;                   // slots and staging are blocks of their own
  bool messages = false;               // ends and words for the kernel of messages
  // Counters and slots of the messages of a pair of ranks of a host that do not reach each other,
  // in the host's memory: pinned at init, because pinning may wait for streams that wait for a
  // message.
  std::uint64_t host_message_bytes = 0;
  // Slots of a pair's messages by NVLink between hosts, in the block kFabric.
  std::uint64_t fabric_message_bytes = 0;
};

class ConnectionLayout {
 public:
  static constexpr int kHost = -1;
  static constexpr int kNowhere = -2;  // not on this host, or in bounce buffers
  // Blocks of a rank's device memory: slots by protocol, staging of shared kernels and of LL push,
  // if ConnectionShape::lazy; else these are in kMain.
  enum Block : std::uint8_t {
    kSimpleSlots,
    kLLSlots,
    kLL128Slots,
    kStaging,
    kPushLines,
    kLazyBlocks
  };
  static constexpr Block kMain = kLazyBlocks;
  // Memory of a clique of several hosts: slots and words of connections and messages between them.
  // If it has all ranks, also what LL push and shared kernels of all write.
  static constexpr auto kFabric = static_cast<Block>(kMain + 1);
  static_assert(kLLSlots == static_cast<int>(cuda::Protocol::kLL) &&
                kLL128Slots == static_cast<int>(cuda::Protocol::kLL128));
  static Block slots_block(cuda::Protocol protocol) { return static_cast<Block>(protocol); }
  static constexpr std::uint64_t kBlockUnit = 2 << 20;  // blocks of virtual memory are multiples
  // Rounds up to one.
  static constexpr std::uint64_t whole_units(std::uint64_t bytes) {
    return (bytes + kBlockUnit - 1) / kBlockUnit * kBlockUnit;
  }
  // Offsets of slots among the rank's of that direction, of words among all of its words. `used`:
  // bytes in each slot.
  struct BounceBuffer {
    std::uint64_t slots, tail, head, used;
  };
  // A place in the memory of a rank, or of the host (home kHost).
  struct Location {
    int home = kHost;
    std::uint64_t offset = 0;
    Block block = kMain;
  };
  struct Edge {
    int from, to, lane, channel;
    bool in_ring;  // may also be in a tree
    // Index among the channel's ends of `from` and of `to`, if these are on this host.
    int out_index, in_index;
    const EdgeTransport* transport = nullptr;
    std::vector<Location> slots = {}, tail = {}, head = {};  // by protocol
    // [direction], if the edge crosses: at `from` and at `to`, if they are on this host.
    std::optional<BounceBuffer> bounce_buffers[cuda::kDirections] = {};
    // Between hosts: by the network; by NVLink.
    bool crosses() const { return transport->home == EdgeTransport::kAtBothEnds; }
    bool in_fabric() const { return transport->home == EdgeTransport::kInFabric; }
  };

  ConnectionLayout(const ConnectionShape& shape, const P2pReach& near,
                   const HostsOfRanks& hosts = {}, ChannelOrders orders = {});

  int ranks() const { return static_cast<int>(bytes_.size()); }
  const ConnectionShape& shape() const { return shape_; }
  const std::vector<Edge>& edges() const { return edges_; }
  // A rank's memory begins with its ends; the host's with the Control of each of its ranks.
  std::uint64_t bytes(int rank) const { return bytes_[static_cast<std::size_t>(rank)]; }
  std::uint64_t max_bytes() const { return *std::max_element(bytes_.begin(), bytes_.end()); }
  // Of a lazy block, a multiple of kBlockUnit; 0: there is none.
  std::uint64_t lazy_bytes(Block block, int rank) const {
    return lazy_[block][static_cast<std::size_t>(rank)];
  }
  // Of the block kFabric, a multiple of kBlockUnit; 0: there is none, or no rank of this host
  // accesses it.
  std::uint64_t fabric_bytes(int rank) const { return fabric_[static_cast<std::size_t>(rank)]; }
  // Whether the block is of lines: new memory must be cleared before kernels use it. If the devices
  // meet, a kernel does that (clear_lines.h), else the host, at init.
  static bool has_lines(Block block) {
    return block == kLLSlots || block == kLL128Slots || block == kPushLines;
  }
  bool is_cleared_by_kernel(Block block) const { return has_lines(block) && meets_ && shape_.lazy; }
  bool is_zeroed_by_host(Block block) const {
    return has_lines(block) && !is_cleared_by_kernel(block);
  }
  std::uint64_t cleared_at(Block block) const;  // words of ClearLinesArgs::cleared
  std::uint64_t zeroed_bytes(int rank) const { return zeroed_[static_cast<std::size_t>(rank)]; }
  std::uint64_t host_bytes() const { return host_bytes_; }
  std::uint64_t control_at(int rank) const;  // in the host's memory, for a rank of this host
  // Sizes of a rank's bounce buffers.
  std::uint64_t bounce_word_bytes(int rank) const {
    return bounce_bytes_[static_cast<std::size_t>(rank)].words;
  }
  std::uint64_t bounce_slot_bytes(int rank, int direction) const {
    return bounce_bytes_[static_cast<std::size_t>(rank)].slots[direction];
  }
  std::uint64_t bytes_of_ends() const;
  // In a rank's memory: its order by channel, as kernels read it (cuda::order_words); 0: none.
  const ChannelOrders& orders() const { return orders_; }
  std::uint64_t orders_at() const { return orders_.permutes() ? rounded_ends() : 0; }
  // CTAs of a launch that count in Control::progress and here: channels, or more of shared kernels.
  int counted_ctas() const { return std::max(shape_.channels, meets_ ? shared_ctas() : 0); }
  std::uint64_t launches_at() const;  // by CTA: launches so far; 0: none
  // For LL push: rounds that each CTA of the rank has done, and the staging that others push to.
  bool ll_push() const { return ll_push_; }
  std::uint64_t rounds_at() const;
  Location push_lines_at(int rank) const { return push_lines_at_[static_cast<std::size_t>(rank)]; }
  // For shared direct kernels: the words of a barrier, and staging, [input, output], each for calls
  // of kSharedStaging bytes: by the priors, rings of 8 GPUs are faster from 6 MiB on. Each CTA has
  // a slice of it, with extra room because its part of each block is rounded to whole lines.
  static constexpr std::uint64_t kSharedStaging = 8 << 20;
  int shared_ctas() const { return std::clamp(shape_.direct_ctas, 1, cuda::kBarrierCtas); }
  std::uint64_t shared_slice() const;
  std::uint64_t shared_bytes() const {
    return shared_slice() * static_cast<unsigned>(shared_ctas());
  }
  bool meets() const { return meets_; }
  std::uint64_t barriers_at() const { return barriers_at_; }
  Location arrivals_at(int rank) const { return arrivals_at_[static_cast<std::size_t>(rank)]; }
  // In a rank's memory: a cuda::Peer for each rank, for kernels; 0: arguments have room for all.
  std::uint64_t peers_at() const { return peers_at_; }
  Location shared_at(int rank) const { return shared_at_[static_cast<std::size_t>(rank)]; }
  // For messages (message_args.h), if there are any: the ends of a rank and the counters that its
  // peers raise; in the host's memory, Control, links and wait words of each of its ranks. Slots
  // are made with the first message of a pair (message_slots.h).
  bool messages() const { return shape_.messages; }
  std::uint64_t message_ends_at() const { return messages_at_; }
  std::uint64_t message_counters_at(int peer, int direction) const;  // of all channels
  std::uint64_t message_control_at(int rank) const;
  std::uint64_t message_links_at(int rank) const;
  std::uint64_t message_waits_at(int rank) const;
  const FabricMessages& fabric_messages() const { return fabric_messages_; }
  // In the host's memory; nullopt: the ranks reach each other, or are not both on this host.
  std::optional<std::uint64_t> host_messages_at(int from, int to) const;
  std::uint64_t slot_bytes(const Edge& edge, int protocol) const;
  std::uint64_t slot_count(int protocol) const {
    return cuda::slot_count_of(static_cast<cuda::Protocol>(protocol), shape_.slots);
  }
  bool reaches(int a, int b) const { return near_(a, b); }
  // Whether the rank's kernels access the memory of `home`.
  bool uses(int rank, int home) const;

 private:
  class Edges;
  void add_edges(const HostsOfRanks& hosts);
  std::uint64_t place_of(int rank) const {
    return static_cast<std::uint64_t>(place_[static_cast<std::size_t>(rank)]);
  }
  std::uint64_t message_control_bytes_at(std::uint64_t place) const;
  std::uint64_t message_links_bytes_at(std::uint64_t place) const;
  std::uint64_t message_waits_bytes_at(std::uint64_t place) const;
  std::uint64_t rounded_ends() const;
  std::uint64_t own_arrivals_at() const;
  std::uint64_t arrivals_bytes() const;
  void place_all(const HostsOfRanks& hosts);
  void place_words(Edge& edge);
  void place_shared_words(int rank);
  static Block block_of_slots(const Edge& edge, int protocol);
  std::uint64_t slots_of(const Edge& edge, int protocol) const;  // bytes
  void place_bounce_buffers(Edge& edge, const HostsOfRanks& hosts);
  Location take(int home, std::uint64_t bytes, Block block = kMain);
  void round_blocks();
  void forget_edges_elsewhere(const HostsOfRanks& hosts);

  ConnectionShape shape_;
  const P2pReach near_;
  const ChannelOrders orders_;
  const FabricMessages fabric_messages_;
  bool ll_push_, meets_;
  std::vector<int> place_;  // by rank: index among this host's ranks; -1: on another host
  std::uint64_t own_ranks_ = 0;
  std::uint64_t barriers_at_ = 0, peers_at_ = 0, messages_at_ = 0, host_messages_at_ = 0;
  std::vector<Edge> edges_;
  std::vector<std::uint64_t> bytes_, zeroed_;                      // by rank
  std::array<std::vector<std::uint64_t>, kLazyBlocks> lazy_;       // bytes, by block and rank
  std::vector<std::uint64_t> fabric_;                              // the same of kFabric, by rank
  std::vector<Location> arrivals_at_, shared_at_, push_lines_at_;  // by rank
  struct BounceBytes {
    std::uint64_t words = 0, slots[cuda::kDirections] = {};
  };
  std::vector<BounceBytes> bounce_bytes_;  // by rank
  std::uint64_t host_bytes_ = 0;
  std::map<std::pair<int, int>, std::uint64_t> host_messages_;  // by sender and receiver
};

}  // namespace rondo::gpu
