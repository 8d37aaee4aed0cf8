// What the kernel of messages is told: sends, receives and copies of ranks of one device.
//
// A pair of ranks has up to kMessageChannels channels in each direction, each with slots of its
// own. A CTA has a list of items, each of them what one channel moves of a message, and up to
// kMessageWindow of them open: it begins them in order, and goes on with those that can. Nothing of
// a channel's state is an argument: how many slots an end has filled or emptied lies in device
// memory (DeviceEnd), so that a captured launch can be replayed. Plain structs, read by host and
// device; sizes are bytes.
//
// Unmeasured. Predicted: a CTA moves 47 GB/s (shapes.h), so 8 channels fill a link of 400 GB/s. A
// slot of 64 KiB takes 1.4 us; until its credit is back pass about 3 us (a fence and a flag each
// way): with 8 slots a sender never waits for a receiver that keeps up, 3 would do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/connected_args.h"

namespace rondo::cuda {

inline constexpr int kMessageChannels = 8;
inline constexpr int kMessageChannelSlots = 8;
inline constexpr std::uint64_t kMessageSlotBytes = 64 << 10;  // most

// Of a launch. 4 hosts of 8 exchange by 7 peers on 8 channels and 24 on one, both ways, and a copy.
inline constexpr int kMaxMessageItems = 196;
inline constexpr int kMaxMessageStations = 8;
inline constexpr int kMaxMessageCtas = 32;
inline constexpr int kMessageWindow = kDirections * kEnds;  // that shared memory has room for

// Where an end stands among those of its rank. Its wait word has the same place.
constexpr int message_end(int peer, int direction, int channel) {
  return (peer * kDirections + direction) * kMessageChannels + channel;
}
constexpr int message_ends(int ranks) { return message_end(ranks, 0, 0); }

inline constexpr std::uint64_t kMessageCounterBytes = 128;  // counters have lines of their own

// What the channels of a pair are at one of its ends. It lies in memory of the host, written before
// the first launch that uses them: that launch's kernel fills the DeviceEnds in, so that the host
// need not wait for the device.
struct MessageLink {
  std::byte* slots;  // of all channels, one after the other
  std::byte *tails, *heads;
  std::uint64_t* used;  // to another host: by slot, how many bytes it holds, for the net proxy; or
                        // null
  std::uint64_t slot_bytes;
  std::uint32_t slot_count;  // of a channel
  std::int32_t peer;
};

struct MessageArgs {
  CallRecord call;  // to report what a kernel waits for
  // An item: what one channel moves of a message, at one of its ends, which says whether it sends.
  // A copy within the device is two: from where, with the bytes, and, behind it, to where.
  static constexpr std::uint16_t kCopy = 0xffff;  // in place of an end
  const void* at[kMaxMessageItems];               // in the rank's buffer
  std::uint64_t bytes[kMaxMessageItems];          // read by one function of the kernel: a count in
                                                  // device memory would need no other change there
  struct Station {
    DeviceEnd* ends;
    const MessageLink* links;  // in host memory: [peer * kDirections + direction]
    std::uint32_t* waits;      // in host memory, by end: a slot's number + 1, while it waits for it
    Control* control;
  } station[kMaxMessageStations];
  std::uint16_t end[kMaxMessageItems];      // of the item's station
  std::uint8_t stations[kMaxMessageItems];  // which one that is
  std::uint8_t first[kMaxMessageCtas + 1];  // CTA b: items from first[b] to first[b + 1]

  RONDO_FN bool copies(unsigned item) const { return end[item] == kCopy; }
  RONDO_FN bool sends(unsigned item) const {  // of no copy
    return end[item] / kMessageChannels % kDirections == kOutgoing;
  }
};
static_assert(sizeof(MessageArgs) <= 4096);
static_assert(kMaxMessageItems <= 255);

// Most threads a CTA, of which kServiceWarps warps move no data; shared memory as kConnectedShared.
inline constexpr int kMessageThreads = kConnectedThreads;

}  // namespace rondo::cuda
