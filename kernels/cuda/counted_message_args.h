// SPDX-License-Identifier: Apache-2.0
// Arguments of the message kernel for an all-to-all whose counts and offsets are in device memory.
//
// The lists of items are those of messages of the largest size (message_launches.h). The kernel
// reads how much of it there is: a sender from its counts, a receiver from the first slot of each
// channel, which holds the count alone. Plain structs, read by host and device.
#pragma once

#include "kernels/cuda/message_args.h"

namespace rondo::cuda {

// What a rank gave; counts, offsets and rooms are elements, counts and offsets by peer.
struct DeviceCounts {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  // From there to the end of the allocation, where the host knows it; else what has an address.
  std::uint64_t send_room = 0, receive_room = 0;
  const std::uint64_t *sent = nullptr, *sent_at = nullptr;
  const std::uint64_t* expected = nullptr;     // null: any up to the largest count
  const std::uint64_t* received_at = nullptr;  // offsets, of sent_at too: null: peer * largest
  std::uint64_t* received = nullptr;           // null: not wanted
};

// Why a rank's kernel refused a count (Control::wants_room), by two numbers, `sent` and `taken`.
enum class CountFault : std::uint32_t {
  kExpectsOther,  // the peer sends `sent` elements, this rank expects `taken`
  kAboveMaximum,  // this rank sends `sent` elements to the peer; the largest count is `taken`
  // This rank's part for or from the peer ends at element `sent` of a buffer of `taken` elements.
  kSendsBeyond,
  kReceivesBeyond,
};

struct CountedMessageArgs {
  CallRecord call;  // count: the largest count of a pair, in elements
  MessageStation station[kMaxMessageStations];
  DeviceCounts counts[kMaxMessageStations];
  Control* reports[kMaxMessageStations];  // where a wrong count is reported
  std::int32_t rank[kMaxMessageStations];
  std::uint32_t element_bytes;
  std::uint16_t end[kMaxMessageItems];      // as in MessageArgs
  std::uint8_t stations[kMaxMessageItems];  // of a copy: the sender's, then the receiver's
  std::uint8_t channels[kMaxMessageItems];  // of the item's pair, in all launches of the call; of a
                                            // copy: number of parts, then the part's number
  std::uint8_t first[kMaxMessageCtas + 1];

  RONDO_FN bool copies(unsigned item) const { return end[item] == MessageArgs::kCopy; }
  RONDO_FN bool sends(unsigned item) const {  // not for copies
    return end[item] / kMessageChannels % kDirections == kOutgoing;
  }
  RONDO_FN int peer(unsigned item) const {  // not for copies
    return end[item] / kMessageChannels / kDirections;
  }
};
static_assert(sizeof(CountedMessageArgs) <= 4096);

}  // namespace rondo::cuda
