// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/connection_layout.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "base/double_tree.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/ll_push_args.h"
#include "kernels/cuda/message_args.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kAlignment = 128;  // each counter has a line of its own
constexpr std::uint64_t kCounterBytes = kAlignment;
static_assert(kCounterBytes == cuda::kMessageCounterBytes);

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

ConnectionLayout::ConnectionLayout(const ConnectionShape& shape, const P2pReach& near,
                                   const HostsOfRanks& hosts, ChannelOrders orders)
    : shape_(shape),
      near_(near),
      orders_(std::move(orders)),
      fabric_messages_(hosts, shape.fabric_message_bytes),
      ll_push_(shape.ll_push && (shape.shares_fabric || near.all())),
      meets_(shape.meets && (shape.shares_fabric || near.all())),
      fabric_(static_cast<std::size_t>(near.ranks())),
      bounce_bytes_(static_cast<std::size_t>(near.ranks())) {
  const int n = near.ranks();
  for (int r = 0; r < n; ++r)
    place_.push_back(hosts.is_own(r) ? static_cast<int>(own_ranks_++) : -1);
  barriers_at_ = rounds_at() + (ll_push_ ? rounded(sizeof(std::uint64_t) * cuda::kLLPushCtas) : 0);
  messages_at_ = meets_ ? cleared_at(kLazyBlocks) : barriers_at_;
  if ((ll_push_ && n > cuda::kLLPushAtOnce) || (meets_ && n > cuda::kArgumentDevices)) {
    peers_at_ = messages_at_;
    messages_at_ += rounded(sizeof(cuda::Peer) * static_cast<std::size_t>(n));
  }
  bytes_.assign(static_cast<std::size_t>(n), messages() ? message_counters_at(n, 0) : messages_at_);
  host_messages_at_ = rounded(sizeof(cuda::Control) * own_ranks_);
  host_bytes_ = messages() ? message_waits_bytes_at(own_ranks_) : host_messages_at_;
  for (int r = 0; r < n; ++r) fabric_[static_cast<std::size_t>(r)] = fabric_messages_.bytes(r);
  add_edges(hosts);
  place_all(hosts);
  forget_edges_elsewhere(hosts);
  assert(host_bytes_ % kAlignment == 0);
  assert(std::all_of(bytes_.begin(), bytes_.end(),
                     [](std::uint64_t bytes) { return bytes % kAlignment == 0; }));
}

// Adds each edge of one channel once.
class ConnectionLayout::Edges {
 public:
  Edges(int ranks, int channel, std::vector<Edge>* all)
      : channel_(channel),
        all_(*all),
        outgoing_(static_cast<std::size_t>(ranks)),
        incoming_(static_cast<std::size_t>(ranks)) {}

  void add(int from, int to, int lane, bool in_ring, const EdgeTransport& transport) {
    std::vector<std::size_t>& before = outgoing_[static_cast<std::size_t>(from)];
    for (const std::size_t i : before)
      if (all_[i].to == to && all_[i].lane == lane) return;
    const int out = static_cast<int>(before.size());
    before.push_back(all_.size());
    all_.push_back({from, to, lane, channel_, in_ring, out,
                    incoming_[static_cast<std::size_t>(to)]++, &transport});
  }

 private:
  const int channel_;
  std::vector<Edge>& all_;
  std::vector<std::vector<std::size_t>> outgoing_;  // by rank: indices of `all_`
  std::vector<int> incoming_;                       // by rank: number of edges
};

// Also edges between other hosts, if they have slots beside those of this host's edges.
void ConnectionLayout::add_edges(const HostsOfRanks& hosts) {
  const int n = near_.ranks();
  std::set<int> own_cliques;
  for (int r = 0; r < n && !hosts.clique_of.empty(); ++r)
    if (hosts.is_own(r)) own_cliques.insert(hosts.clique_of[static_cast<std::size_t>(r)]);
  for (int c = 0; c < shape_.channels; ++c) {
    Edges edges(n, c, &edges_);
    const ChannelOrders::Ring* const ring = orders_.of(c);
    const auto rank_at = [&](int position) {
      return ring == nullptr ? position : ring->ranks[static_cast<std::size_t>(position)];
    };
    const auto add = [&](int position, int next, int lane) {
      const int from = rank_at(position), to = rank_at(next);
      const bool joined = hosts.join(from, to);
      const bool beside_own =
          joined && own_cliques.contains(hosts.clique_of[static_cast<std::size_t>(from)]);
      if (!hosts.is_own(from) && !hosts.is_own(to) && !beside_own) return;
      const bool in_ring = lane == 0 && next == (position + 1) % n;
      edges.add(from, to, lane, in_ring,
                edge_transport({hosts.same(from, to), near_(from, to), joined}));
    };
    for (int p = 0; p < n; ++p) {
      add(p, (p + 1) % n, 0);
      for (int tree = 0; tree < 2; ++tree) {
        const int parent = double_tree(p, n, tree).parent;
        if (parent == kNoRank) continue;
        add(p, parent, tree);
        add(parent, p, tree);
      }
    }
  }
}

void ConnectionLayout::forget_edges_elsewhere(const HostsOfRanks& hosts) {
  std::vector<bool> used(fabric_.size());
  std::erase_if(edges_, [&](const Edge& edge) {
    if (!hosts.is_own(edge.from) && !hosts.is_own(edge.to)) return true;
    if (edge.in_fabric()) used[static_cast<std::size_t>(edge.from)] = true;
    if (edge.in_fabric()) used[static_cast<std::size_t>(edge.to)] = true;
    return false;
  });
  for (std::size_t r = 0; r < used.size(); ++r)
    if (!used[r] && !shape_.shares_fabric && !fabric_messages_.uses(static_cast<int>(r)))
      fabric_[r] = 0;
}

std::uint64_t ConnectionLayout::slot_bytes(const Edge& edge, int protocol) const {
  const bool is_long = edge.in_ring && shape_.ring_slot_bytes > 0;
  return cuda::slot_bytes_of(static_cast<cuda::Protocol>(protocol),
                             is_long ? shape_.ring_slot_bytes : shape_.slot_bytes);
}

std::uint64_t ConnectionLayout::bytes_of_ends() const {
  return sizeof(cuda::DeviceEnd) * cuda::kChannelEnds * static_cast<std::uint64_t>(shape_.channels);
}

std::uint64_t ConnectionLayout::rounded_ends() const { return rounded(bytes_of_ends()); }

// Behind a line whose last word is the digest of the launches' calls.
std::uint64_t ConnectionLayout::launches_at() const {
  const std::uint64_t of_orders = orders_at() == 0
                                      ? 0
                                      : sizeof(std::int32_t) * cuda::order_words(near_.ranks()) *
                                            static_cast<std::uint64_t>(shape_.channels);
  return rounded_ends() + rounded(of_orders) + kAlignment;
}
std::uint64_t ConnectionLayout::rounds_at() const {
  return launches_at() + rounded(sizeof(std::uint64_t) * static_cast<std::size_t>(counted_ctas()));
}
std::uint64_t ConnectionLayout::own_arrivals_at() const {
  return barriers_at_ + rounded(sizeof(std::uint64_t) * cuda::kBarrierCtas);
}
std::uint64_t ConnectionLayout::arrivals_bytes() const {
  return rounded(sizeof(std::uint64_t) * cuda::kBarrierCtas * cuda::arrivals_of_cta(near_.ranks()));
}

std::uint64_t ConnectionLayout::cleared_at(Block block) const {
  return own_arrivals_at() + arrivals_bytes() +
         rounded(sizeof(std::uint64_t) * cuda::kClearCtas) * block;
}

std::uint64_t ConnectionLayout::shared_slice() const {
  const auto ctas = static_cast<std::uint64_t>(shared_ctas());
  return rounded((kSharedStaging + ctas - 1) / ctas) +
         kAlignment * cuda::arrivals_of_cta(near_.ranks());
}

std::uint64_t ConnectionLayout::message_counters_at(int peer, int direction) const {
  const auto ends = static_cast<std::uint64_t>(cuda::message_ends(near_.ranks()));
  return messages_at_ + rounded(sizeof(cuda::DeviceEnd) * ends) +
         kCounterBytes * static_cast<std::uint64_t>(cuda::message_end(peer, direction, 0));
}
std::uint64_t ConnectionLayout::message_control_bytes_at(std::uint64_t place) const {
  return host_messages_at_ + sizeof(cuda::Control) * place;
}
std::uint64_t ConnectionLayout::message_links_bytes_at(std::uint64_t place) const {
  const auto links = std::uint64_t{cuda::kDirections} * static_cast<std::uint64_t>(near_.ranks());
  return message_control_bytes_at(own_ranks_) + rounded(sizeof(cuda::MessageLink) * links) * place;
}
std::uint64_t ConnectionLayout::message_waits_bytes_at(std::uint64_t place) const {
  const auto words = static_cast<std::uint64_t>(cuda::message_ends(near_.ranks()));
  return message_links_bytes_at(own_ranks_) + rounded(sizeof(std::uint32_t) * words) * place;
}

std::uint64_t ConnectionLayout::control_at(int rank) const {
  return sizeof(cuda::Control) * place_of(rank);
}
std::uint64_t ConnectionLayout::message_control_at(int rank) const {
  return message_control_bytes_at(place_of(rank));
}
std::uint64_t ConnectionLayout::message_links_at(int rank) const {
  return message_links_bytes_at(place_of(rank));
}
std::uint64_t ConnectionLayout::message_waits_at(int rank) const {
  return message_waits_bytes_at(place_of(rank));
}

ConnectionLayout::Location ConnectionLayout::take(int home, std::uint64_t bytes, Block block) {
  assert(home == kHost || (home >= 0 && home < near_.ranks()));
  if (home == kHost || (!shape_.lazy && block != kFabric)) block = kMain;
  const auto rank = static_cast<std::size_t>(home);
  std::uint64_t& used = home == kHost      ? host_bytes_
                        : block == kMain   ? bytes_[rank]
                        : block == kFabric ? fabric_[rank]
                                           : lazy_[block][rank];
  assert(used % kAlignment == 0 && "counters would share a line");
  const Location place{home, used, block};
  used += rounded(bytes);
  return place;
}

std::uint64_t ConnectionLayout::slots_of(const Edge& edge, int protocol) const {
  return (shape_.protocols >> protocol & 1) == 0
             ? 0
             : slot_count(protocol) * slot_bytes(edge, protocol);
}

// All but the slots of Simple.
void ConnectionLayout::place_words(Edge& edge) {
  const bool on_host = edge.transport->home == EdgeTransport::kOnHost;
  const int receiver = on_host ? kHost : edge.to, sender = on_host ? kHost : edge.from;
  const Block words = edge.in_fabric() ? kFabric : kMain;
  for (int protocol = 0; protocol < cuda::kProtocols; ++protocol) {
    const bool is_simple = protocol == static_cast<int>(cuda::Protocol::kSimple);
    edge.slots.push_back(
        take(receiver, is_simple ? 0 : slots_of(edge, protocol), block_of_slots(edge, protocol)));
    edge.tail.push_back(take(receiver, kCounterBytes, words));
    edge.head.push_back(take(sender, kCounterBytes, words));
  }
}

ConnectionLayout::Block ConnectionLayout::block_of_slots(const Edge& edge, int protocol) {
  return edge.in_fabric() ? kFabric : slots_block(static_cast<cuda::Protocol>(protocol));
}

void ConnectionLayout::place_all(const HostsOfRanks& hosts) {
  const auto is_placed = [&](const Edge& edge) {
    return edge.in_fabric() || (!edge.crosses() && hosts.is_own(edge.from));
  };
  for (auto& block : lazy_) block.assign(bytes_.size(), 0);
  for (Edge& edge : edges_) {
    if (is_placed(edge)) {
      place_words(edge);
      continue;
    }
    edge.slots.assign(cuda::kProtocols, {kNowhere, 0, kMain});
    edge.tail = edge.head = edge.slots;
    if (edge.crosses()) place_bounce_buffers(edge, hosts);
  }
  for (int r = 0; r < near_.ranks(); ++r) place_shared_words(r);
  zeroed_ = bytes_;
  constexpr int kSimple = static_cast<int>(cuda::Protocol::kSimple);
  for (Edge& edge : edges_)
    if (is_placed(edge))
      edge.slots[kSimple] =
          take(edge.slots[kSimple].home, slots_of(edge, kSimple), block_of_slots(edge, kSimple));
  for (int r = 0; r < near_.ranks(); ++r)
    shared_at_.push_back(
        take(r, meets_ ? 2 * shared_bytes() : 0, shape_.shares_fabric ? kFabric : kStaging));
  const bool has_host_messages = messages() && shape_.host_message_bytes > 0;
  for (int from = 0; from < near_.ranks() && has_host_messages; ++from)
    for (int to = 0; to < near_.ranks(); ++to)
      if (from != to && hosts.is_own(from) && hosts.is_own(to) && !near_(from, to))
        host_messages_[{from, to}] = take(kHost, shape_.host_message_bytes).offset;
  round_blocks();
}

// What peers write in LL push and barriers.
void ConnectionLayout::place_shared_words(int rank) {
  const bool joined = shape_.shares_fabric;
  push_lines_at_.push_back(take(rank, ll_push_ ? cuda::ll_push_staging(near_.ranks()) : 0,
                                joined ? kFabric : kPushLines));
  arrivals_at_.push_back(joined ? take(rank, meets_ ? arrivals_bytes() : 0, kFabric)
                                : Location{rank, own_arrivals_at(), kMain});
}

std::optional<std::uint64_t> ConnectionLayout::host_messages_at(int from, int to) const {
  const auto found = host_messages_.find({from, to});
  return found == host_messages_.end() ? std::nullopt : std::optional(found->second);
}

void ConnectionLayout::round_blocks() {
  for (std::vector<std::uint64_t>& block : lazy_)
    for (std::uint64_t& bytes : block) bytes = whole_units(bytes);
  for (std::uint64_t& bytes : fabric_) bytes = whole_units(bytes);
}

void ConnectionLayout::place_bounce_buffers(Edge& edge, const HostsOfRanks& hosts) {
  for (const int direction : {cuda::kOutgoing, cuda::kIncoming}) {
    const int rank = direction == cuda::kOutgoing ? edge.from : edge.to;
    if (!hosts.is_own(rank)) continue;
    BounceBytes& of_rank = bounce_bytes_[static_cast<std::size_t>(rank)];
    const auto take_from = [](std::uint64_t& used, std::uint64_t bytes) {
      used += rounded(bytes);
      return used - rounded(bytes);
    };
    const auto take = [&](std::uint64_t bytes) { return take_from(of_rank.words, bytes); };
    const auto slots = static_cast<std::uint64_t>(shape_.slots);
    const std::uint64_t each = slot_bytes(edge, static_cast<int>(cuda::Protocol::kSimple));
    edge.bounce_buffers[direction] =
        BounceBuffer{take_from(of_rank.slots[direction], slots * each), take(kCounterBytes),
                     take(kCounterBytes), take(slots * sizeof(std::uint64_t))};
  }
}

bool ConnectionLayout::uses(int rank, int home) const {
  if (rank == home || ((ll_push_ || meets_) && !shape_.shares_fabric)) return true;
  if (messages() && near_(rank, home)) return true;
  for (const Edge& edge : edges_) {
    const bool joins = (edge.from == rank && edge.to == home) ||  //
                       (edge.from == home && edge.to == rank);
    if (joins && edge.slots[0].home >= 0 && !edge.in_fabric()) return true;
  }
  return false;
}

}  // namespace rondo::gpu
