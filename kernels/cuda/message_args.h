// What the kernel of messages is told: sends, receives and copies of ranks of one device.
//
// A pair of ranks has up to kMessageChannels channels in each direction, each with slots of its
// own. A CTA plays items one after the other, each of them what one channel moves of a message.
// Nothing of a channel's state is an argument: how many slots an end has filled or emptied lies in
// device memory (DeviceEnd), so that a captured launch can be replayed. Plain structs, read by host
// and device; sizes are bytes.
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

inline constexpr int kMostMessageItems = 112;  // of a launch: 7 peers, both ways, on all channels
inline constexpr int kMostMessageStations = 8;
inline constexpr int kMostMessageCtas = 32;

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
  CallRecord call;  // for whoever asks what a kernel waits for
  struct Item {
    const void* from;     // null: it comes from the end's slots
    void* to;             // null: it goes there
    std::uint64_t bytes;  // read by one function of the kernel: a count in device memory would
                          // need no other change there
    std::uint16_t end;    // of the station; a copy has none
    std::uint16_t station;
  } item[kMostMessageItems];
  struct Station {
    DeviceEnd* ends;
    const MessageLink* links;  // in host memory: [peer * kDirections + direction]
    std::uint32_t* waits;      // in host memory, by end: a slot's number + 1, while it waits for it
    Control* control;
  } station[kMostMessageStations];
  std::uint8_t first[kMostMessageCtas + 1];  // CTA b: items from first[b] to first[b + 1]
};
static_assert(sizeof(MessageArgs) <= 4096);
static_assert(kMostMessageItems <= 255);

// Most threads a CTA, of which kServiceWarps warps move no data; shared memory as kConnectedShared.
inline constexpr int kMessageThreads = kConnectedThreads;

}  // namespace rondo::cuda
