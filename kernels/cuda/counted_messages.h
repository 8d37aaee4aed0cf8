// SPDX-License-Identifier: Apache-2.0
// How the message kernel learns the size of a message whose count is in device memory.
//
// The first slot of every channel of a pair holds the count, and no data: the control lane of the
// sender stores it, that of the receiver loads it. Both then know how the message is cut: by its
// bytes, among as many of the pair's channels as a message of that size needs.
// Guarantees: no byte is moved by a count that exceeds the largest one, that the receiver does not
// expect, or that leads beyond a buffer whose size is known. The rank that finds it reports both
// numbers in Control, and its kernel ends. Cost: a slot per channel of a pair, two or three loads
// by the control lane.
#pragma once

#include "kernels/cuda/counted_message_args.h"
#include "kernels/cuda/cta_memory.h"
#include "kernels/cuda/device.h"

namespace rondo::cuda {

inline constexpr unsigned kNoMessageItem = ~0u;
// Results of OpenItem::read_count() besides a count: none comes before the data; it is wrong.
inline constexpr std::uint64_t kNoHead = ~0ull, kWrongCount = ~0ull - 1;

template <class Args>
struct OpenItem;

RONDO_FN inline void report_count(Control* control, const CallRecord& call, int peer,
                                  CountFault why, std::uint64_t sent, std::uint64_t taken) {
  using device::Scope;
  if (device::exchange_relaxed<Scope::kSystem>(&control->claimed, 1u) != 0) return;
  device::store_relaxed<Scope::kSystem>(&control->peer, static_cast<std::int32_t>(peer));
  device::store_relaxed<Scope::kSystem>(&control->wants_room, static_cast<std::uint32_t>(why));
  device::store_relaxed<Scope::kSystem>(&control->sent, sent);
  device::store_relaxed<Scope::kSystem>(&control->taken, taken);
  write_record(&control->call, call);
  device::fence<Scope::kSystem>();
  device::store_relaxed<Scope::kSystem>(&control->gave_up, 1u);
  device::store_relaxed<Scope::kSystem>(&control->abort, 1u);
}

template <>
struct OpenItem<CountedMessageArgs> {
  unsigned item = kNoMessageItem;
  std::uint64_t moved = 0;

  OpenItem() = default;
  explicit RONDO_FN OpenItem(unsigned opened) : item(opened) {}

  RONDO_FN std::uint64_t bytes(const CountedMessageArgs&) const { return bytes_; }
  RONDO_FN bool is_over(const CountedMessageArgs&) const { return knows_ && moved == bytes_; }
  RONDO_FN std::uintptr_t at(const CountedMessageArgs&) const { return at_; }
  RONDO_FN std::uintptr_t target(const CountedMessageArgs&) const { return target_; }

  // Before the first job of the item, whose slot is ready; not for a copy, which has none. Returns
  // the count that the slot holds.
  RONDO_FN std::uint64_t read_count(const CountedMessageArgs& args, EndAt end) {
    if (knows_) return kNoHead;
    if (args.copies(item)) return read_copy(args);
    const bool sends = args.sends(item);
    const unsigned place = args.stations[item];
    const DeviceCounts& of = args.counts[place];
    const int peer = args.peer(item);
    const std::uint64_t count = sends ? device::load(of.sent + peer)
                                      : device::load_relaxed<device::Scope::kSystem>(
                                            reinterpret_cast<const std::uint64_t*>(end.slot()));
    std::uint64_t first = 0;
    if (!(sends ? may_send(args, place, peer, count, &first)
                : may_receive(args, place, peer, count, &first)))
      return kWrongCount;
    const unsigned channel = args.end[item] % kMessageChannels;
    const std::uint64_t begin =
        cut(count * args.element_bytes, end.slot_bytes() * kMessageChannelSlots / 2,
            args.channels[item], channel);
    at_ = reinterpret_cast<std::uintptr_t>(sends ? of.send : of.receive) +
          first * args.element_bytes + begin;
    if (!sends && channel == 0) note_received(of, peer, count);
    knows_ = true;
    return count;
  }

 private:
  // Whether the rank of this station may send `count` elements to the peer, or receive them; else
  // reports why not. first: of its buffer's elements.
  static RONDO_FN bool may_send(const CountedMessageArgs& args, unsigned place, int peer,
                                std::uint64_t count, std::uint64_t* first) {
    const DeviceCounts& of = args.counts[place];
    *first = offset(of.sent_at, peer, args);
    return is_within(args, place, peer, CountFault::kAboveMaximum, count, args.call.count) &&
           is_within(args, place, peer, CountFault::kSendsBeyond, end_of(*first, count),
                     of.send_room);
  }
  static RONDO_FN bool may_receive(const CountedMessageArgs& args, unsigned place, int peer,
                                   std::uint64_t count, std::uint64_t* first) {
    const DeviceCounts& of = args.counts[place];
    *first = offset(of.received_at, peer, args);
    std::uint64_t taken = count < args.call.count ? count : args.call.count;
    if (of.expected != nullptr) taken = device::load(of.expected + peer);
    if (count != taken) {
      report_count(args.reports[place], args.call, peer, CountFault::kExpectsOther, count, taken);
      return false;
    }
    return is_within(args, place, peer, CountFault::kReceivesBeyond, end_of(*first, count),
                     of.receive_room);
  }
  static RONDO_FN bool is_within(const CountedMessageArgs& args, unsigned place, int peer,
                                 CountFault why, std::uint64_t number, std::uint64_t maximum) {
    if (number <= maximum) return true;
    report_count(args.reports[place], args.call, peer, why, number, maximum);
    return false;
  }
  // Of a part; an empty one may be anywhere.
  static RONDO_FN std::uint64_t end_of(std::uint64_t first, std::uint64_t count) {
    if (count == 0) return 0;
    return first + count < first ? ~0ull : first + count;
  }
  static RONDO_FN std::uint64_t offset(const std::uint64_t* offsets, int peer,
                                       const CountedMessageArgs& args) {
    return offsets != nullptr ? device::load(offsets + peer)
                              : static_cast<std::uint64_t>(peer) * args.call.count;
  }
  static RONDO_FN void note_received(const DeviceCounts& of, int peer, std::uint64_t count) {
    if (of.received != nullptr) device::store(of.received + peer, count);
  }
  // The channel's part of `whole` bytes: sets bytes_, and returns where the part begins. A channel
  // takes at least `smallest` bytes, as when the host knows the size (message_launches.cc).
  RONDO_FN std::uint64_t cut(std::uint64_t whole, std::uint64_t smallest, unsigned channels,
                             unsigned channel) {
    constexpr std::uint64_t kLine = 128;
    std::uint64_t used = whole / smallest;
    if (used > channels) used = channels;
    if (used == 0) used = 1;
    const std::uint64_t each = ((whole + used - 1) / used + kLine - 1) / kLine * kLine;
    const std::uint64_t begin = each * channel < whole ? each * channel : whole;
    bytes_ = whole - begin < each ? whole - begin : each;
    return begin;
  }
  RONDO_FN std::uint64_t read_copy(const CountedMessageArgs& args) {
    const unsigned from = args.stations[item], to = args.stations[item + 1];
    const DeviceCounts &sender = args.counts[from], &receiver = args.counts[to];
    const int from_rank = args.rank[from], to_rank = args.rank[to];
    const std::uint64_t count = device::load(sender.sent + to_rank);
    std::uint64_t source = 0, target = 0;
    if (!may_send(args, from, to_rank, count, &source) ||
        !may_receive(args, to, from_rank, count, &target))
      return kWrongCount;
    const unsigned part = args.channels[item + 1];
    const std::uint64_t begin =
        cut(count * args.element_bytes, kMessageSlotBytes * kMessageChannelSlots / 2,
            args.channels[item], part);
    at_ = reinterpret_cast<std::uintptr_t>(sender.send) + source * args.element_bytes + begin;
    target_ =
        reinterpret_cast<std::uintptr_t>(receiver.receive) + target * args.element_bytes + begin;
    if (part == 0) note_received(receiver, from_rank, count);
    knows_ = true;
    return kNoHead;
  }

  bool knows_ = false;
  std::uint64_t bytes_ = 0;
  std::uintptr_t at_ = 0, target_ = 0;
};

}  // namespace rondo::cuda
