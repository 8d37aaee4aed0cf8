// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/message_shape.h"

#include <algorithm>

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

}  // namespace rondo::gpu
