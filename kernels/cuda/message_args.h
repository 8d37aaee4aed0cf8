// SPDX-License-Identifier: Apache-2.0
// Arguments of the message kernel: sends, receives and copies of the ranks of one device.
//
// A pair of ranks has up to kMessageChannels channels in each direction, each with its own slots. A
// CTA has a list of items (an item is the part of a message that one channel moves) and has up to
// kMessageWindow of them open: it opens them in order, and continues those that are ready. No
// channel state is an argument: the number of slots that an end has filled or emptied is in device
// memory (DeviceEnd), so that a captured launch can be replayed. Plain structs, read by host and
// device; sizes are bytes.
//
// Unmeasured. Predicted: a CTA moves 47 GB/s (shapes.h), so 8 channels fill a link of 400 GB/s. A
// slot of 64 KiB takes 1.4 us; its credit returns after about 3 us (a fence and a flag each way).
// With 8 slots a sender never waits for a receiver that keeps up; 3 would be enough.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/connected_args.h"

namespace rondo::cuda {

inline constexpr int kMessageChannels = 8;
inline constexpr int kMessageChannelSlots = 8;
inline constexpr std::uint64_t kMessageSlotBytes = 64 << 10;  // maximum

// Per launch. With 4 hosts of 8 ranks: 7 peers on 8 channels and 24 on one, both ways, and a copy.
inline constexpr int kMaxMessageItems = 196;
inline constexpr int kMaxMessageStations = 8;
inline constexpr int kMaxMessageCtas = 32;
inline constexpr int kMessageWindow = kDirections * kEnds;  // limited by shared memory

// Index of an end among those of its rank. Its wait word has the same index.
constexpr int message_end(int peer, int direction, int channel) {
  return (peer * kDirections + direction) * kMessageChannels + channel;
}
constexpr int message_ends(int ranks) { return message_end(ranks, 0, 0); }

inline constexpr std::uint64_t kMessageCounterBytes = 128;  // each counter has its own line

// Words before slots in host memory: tails and heads of all channels and, to another host, the
// number of bytes in each slot.
inline constexpr std::uint64_t kMessageTailsBytes = kMessageChannels * kMessageCounterBytes;
inline constexpr std::uint64_t kMessageCountersBytes = 2 * kMessageTailsBytes;
inline constexpr std::uint64_t kMessageUsedBytes =
    kMessageChannels * kMessageChannelSlots * sizeof(std::uint64_t);

// The channels of a pair, at one of its ends. Stored in host memory and written before the first
// launch that uses them. That launch's kernel fills in the DeviceEnds, so that the host does not
// have to wait for the device.
struct MessageLink {
  std::byte* slots;  // slots of all channels, in order
  std::byte *tails, *heads;
  std::uint64_t* used;  // to another host: bytes in each slot, for the net proxy; or null
  std::uint64_t slot_bytes;
  std::uint32_t slot_count;  // per channel
  std::int32_t peer;
};

// A rank of the device, as the kernel sees it.
struct MessageStation {
  DeviceEnd* ends;
  const MessageLink* links;  // in host memory: [peer * kDirections + direction]
  std::uint32_t* waits;      // in host memory, by end: the awaited slot's number + 1
  Control* control;
};

struct MessageArgs {
  CallRecord call;  // for reports of what a kernel waits for
  // An item: the part of a message that one channel moves, at one of its ends, which defines the
  // direction. A copy within the device takes two items: the source with the bytes, then the
  // target.
  static constexpr std::uint16_t kCopy = 0xffff;  // instead of an end
  const void* at[kMaxMessageItems];               // address in the rank's buffer
  std::uint64_t bytes[kMaxMessageItems];
  using Station = MessageStation;
  Station station[kMaxMessageStations];
  std::uint16_t end[kMaxMessageItems];      // index of the end at the item's station
  std::uint8_t stations[kMaxMessageItems];  // index of the item's station
  std::uint8_t first[kMaxMessageCtas + 1];  // CTA b: items from first[b] to first[b + 1]

  RONDO_FN bool copies(unsigned item) const { return end[item] == kCopy; }
  RONDO_FN bool sends(unsigned item) const {  // not for copies
    return end[item] / kMessageChannels % kDirections == kOutgoing;
  }
};
static_assert(sizeof(MessageArgs) <= 4096);
static_assert(kMaxMessageItems <= 255);

// Maximum threads per CTA, of which kServiceWarps warps move no data. Shared memory:
// kConnectedShared.
inline constexpr int kMessageThreads = kConnectedThreads;

}  // namespace rondo::cuda
