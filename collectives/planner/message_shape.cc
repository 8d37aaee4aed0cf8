// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/message_shape.h"

#include <algorithm>
#include <cassert>

#include "collectives/planner/call_links.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kMaxPinned = 8 << 20;    // per receiver
constexpr std::uint64_t kLeastOfPair = 8 << 10;  // for any number of ranks
constexpr std::uint64_t kPairAlignment = 512;    // the two halves that streams use are aligned
constexpr std::uint64_t kAlignment = 128;
// Smaller slots are not worth a channel's start: the pair then has fewer channels.
constexpr std::uint64_t kLeastSlot = 32 << 10;
constexpr std::uint64_t kNetworkChannels = 4;  // maximum of a pair on two hosts

}  // namespace

MessageShape message_shape(std::uint64_t bytes, bool over_network) {
  constexpr std::uint64_t kSlots = cuda::kMessageChannelSlots;
  MessageShape shape;
  shape.over_network = over_network;
  shape.channels = static_cast<int>(std::clamp<std::uint64_t>(
      bytes / kSlots / kLeastSlot, 1, over_network ? kNetworkChannels : cuda::kMessageChannels));
  const std::uint64_t each = bytes / kSlots / static_cast<std::uint64_t>(shape.channels);
  shape.slot_bytes = std::min(cuda::kMessageSlotBytes, each / kAlignment * kAlignment);
  return shape;
}

std::uint64_t message_bytes_of_pair(std::uint64_t staging_bytes, std::size_t ranks, bool pinned) {
  const std::uint64_t of_rank = pinned ? std::min(staging_bytes, kMaxPinned) : staging_bytes;
  return std::max(of_rank / ranks / kPairAlignment * kPairAlignment, kLeastOfPair);
}

namespace {

// Slots have the default size of RONDO_GPU_STAGING.
constexpr std::uint64_t kUsualStaging = 64 << 20;

// Messages of the busiest rank in one direction, within its host or to other hosts.
struct Side {
  double peers = 0;
  LinkClass link = LinkClass::kNvLink;
  double gbs = 1;  // of the rank's outgoing or incoming link
  double channels = 1, slot_bytes = 1;

  double parts() const { return peers * channels; }
};

// Divides the slots of such a pair for messages of `bytes` bytes (message_launches.h).
void cut(const DevicePlanFacts& facts, double bytes, Side* side) {
  assert(bytes >= 0);
  const bool network = side->link == LinkClass::kNetwork;
  const MessageShape shape = message_shape(
      message_bytes_of_pair(kUsualStaging, static_cast<std::size_t>(facts.ranks), network),
      network);
  side->slot_bytes = static_cast<double>(shape.slot_bytes);
  const double half = side->slot_bytes * cuda::kMessageChannelSlots / 2;
  side->channels = std::clamp(bytes / half, 1.0, static_cast<double>(shape.channels));
}

struct Sides {
  Side within, across;
};
Sides sides_of(const DevicePlanFacts& facts, Collective collective, double bytes) {
  const bool crosses = facts.crosses();  // else NVLink joins all ranks as one host does
  const double of_host = static_cast<double>(facts.ranks) / (crosses ? facts.hosts : 1);
  const bool one = collective >= Collective::kSend;
  Sides sides;
  if (crosses) sides.across.peers = one ? 1 : facts.ranks - of_host;
  sides.within.peers = one && crosses ? 0 : (one ? 2 : of_host) - 1;
  const CallLinks links = links_of(facts);
  sides.within.link = links.near_all;
  sides.within.gbs = links.direct_gbs;
  sides.across.link = LinkClass::kNetwork;
  sides.across.gbs = links.port_gbs;
  // If rings leave a host by fewer ports than it has ranks, several ranks share one.
  if (!is_rooted(collective)) sides.across.gbs *= std::min(links.rings / of_host, 1.0);
  cut(facts, bytes, &sides.within);
  cut(facts, bytes, &sides.across);
  return sides;
}

// Time of a slot on its CTA.
double slot_ns(const Side& side, double bytes, const DeviceCosts& costs) {
  const sim::VerbCost verb = verb_cost(cuda::Protocol::kSimple, costs);
  return verb.fixed_ns + std::min(bytes / side.channels, side.slot_bytes) / verb.copy_gbs;
}

// The slower of wires and CTAs. A CTA waits for all its open messages at once, so their slots
// return in parallel.
double side_ns(const Side& side, double bytes, double ctas, const DeviceCosts& costs) {
  if (side.peers == 0) return 0;
  const double slots = std::max(bytes / side.channels / side.slot_bytes, 1.0);
  const double of_cta = side.parts() / std::min(ctas, side.parts());
  const double open = std::min(of_cta, static_cast<double>(cuda::kMessageWindow));
  const double own = slot_ns(side, bytes, costs);
  const double hop = hop_ns(cuda::Protocol::kSimple, side.link, costs);
  const double back = (2 * own + 2 * hop) / cuda::kMessageChannelSlots;
  const double each = slots > cuda::kMessageChannelSlots ? std::max(own, back / open) : own;
  return std::max(side.peers * bytes / side.gbs, of_cta * slots * each);
}

}  // namespace

double messages_ns(const DevicePlanFacts& facts, const CallRecord& record) {
  assert(facts.ranks > 0 && facts.hosts > 0);
  const auto bytes = static_cast<double>(record.count * size_of(record.type));
  const Sides sides = sides_of(facts, record.collective, bytes);
  // Sends and receives get half of the CTAs each, or all if there is only one of the two. Messages
  // inside and outside the host share these in proportion.
  const double ways = is_rooted(record.collective) ? 1 : 2;
  const double parts = sides.within.parts() + sides.across.parts();
  const double ctas = message_ctas(facts.hosts) / ways;
  const auto share = [&](const Side& side) {
    return parts > ctas ? std::max(ctas * side.parts() / parts, 1.0) : ctas;
  };
  const Side& slowest = sides.across.peers > 0 ? sides.across : sides.within;
  const DeviceCosts& costs = facts.costs;
  const double hop = hop_ns(cuda::Protocol::kSimple, slowest.link, costs);
  const double launches = ways * parts / cuda::kMaxMessageItems;
  const double again =
      launches > 1 ? (launches - 1) * (costs.of(DeviceRate::kNextLaunch) + hop) : 0;
  return 2 * slot_ns(slowest, bytes, costs) + hop + again +
         std::max(side_ns(sides.within, bytes, share(sides.within), costs),
                  side_ns(sides.across, bytes, share(sides.across), costs));
}

}  // namespace rondo::gpu
