// SPDX-License-Identifier: Apache-2.0
// The message kernel: all sends and receives between ranks of this device and of others, in one
// launch, and copies within the device.
//
// A CTA has a control warp, a signal warp and workers (cta_memory.h). The control warp waits for a
// slot while workers move earlier slots and the signal warp signals those before. Up to
// kMessageWindow lanes of the control warp each have one item open. The first item whose slot is
// known to be ready moves. If none is known, all lanes load their counters. If still none is ready,
// the next item of the list is opened. So slots that take long, as between hosts, delay only their
// own message.
// Guarantees: any alignment; sent data is read once and crosses once to the receiver's slots; items
// of one end run one after another; a wait ends soon after Control::abort is set. If a CTA waits
// long, it publishes one end's awaited slot number to the host (Station::waits), until the wait
// ends.
// Requires of the host that cuts messages into items and launches: the first unfinished item of all
// must be open, or the next to be opened, on both sides (message_launches.h). Cost: without waits,
// one ring job and one posted store to the peer per slot.
//
// MessageKernel<CountedMessageArgs> is the same for messages whose sizes are in device memory
// (counted_messages.h).
#pragma once

#include "kernels/cuda/counted_messages.h"
#include "kernels/cuda/end_wait.h"
#include "kernels/cuda/signal_warp.h"
#include "kernels/cuda/simple_mover.h"

namespace rondo::cuda {

// Publishes a long wait of an end in host memory.
struct WaitReporter {
  std::uint32_t* word;
  std::uint32_t slot;  // number of the slot + 1
  RONDO_FN void waits() const { device::store_relaxed<device::Scope::kSystem>(word, slot); }
  RONDO_FN void goes_on() const { device::store_relaxed<device::Scope::kSystem>(word, 0u); }
};

// The item that a lane of the control warp has open, and its progress.
template <>
struct OpenItem<MessageArgs> {
  unsigned item = kNoMessageItem;
  std::uint64_t moved = 0;

  OpenItem() = default;
  explicit RONDO_FN OpenItem(unsigned opened) : item(opened) {}
  RONDO_FN std::uint64_t read_count(const MessageArgs&, EndAt) { return kNoHead; }
  RONDO_FN std::uint64_t bytes(const MessageArgs& args) const { return args.bytes[item]; }
  RONDO_FN bool is_over(const MessageArgs& args) const { return moved == args.bytes[item]; }
  RONDO_FN std::uintptr_t at(const MessageArgs& args) const {
    return reinterpret_cast<std::uintptr_t>(args.at[item]);
  }
  RONDO_FN std::uintptr_t target(const MessageArgs& args) const {  // of a copy
    return reinterpret_cast<std::uintptr_t>(args.at[item + 1]);
  }
};

template <class MessagesArgs>
struct MessageKernel {
  using Args = MessagesArgs;
  using Open = OpenItem<Args>;
  static constexpr int kThreads = kMessageThreads;
  static constexpr int kCtas = 1;

  static RONDO_FN void run(const Args& args) {
    const JobRing ring{{0, device::thread_count(), device::warp_index()}};
    if (device::thread_index() == 0) begin_waits();
    JobRing::begin(ring.group.workers());
    device::barrier();
    if (ring.group.warp == 0) {
      run_ring(args, ring);
      ring.publish_last();
    } else if (ring.group.warp == 1) {
      if (device::lane_index() == 0) post_jobs(ring, 0, true);
    } else {
      work(ring);
    }
  }

 private:
  static constexpr unsigned kNone = kNoMessageItem;
  static RONDO_FN const MessageStation& station_of(const Args& args, unsigned item) {
    return args.station[args.stations[item]];
  }
  static RONDO_FN DeviceEnd* end_of(const Args& args, unsigned item) {
    return args.copies(item) ? nullptr : station_of(args, item).ends + args.end[item];
  }
  static RONDO_FN unsigned behind(const Args& args, unsigned item) {
    return item + (args.copies(item) ? 2 : 1);
  }
  // The end of lane `place`, in shared memory.
  static RONDO_FN EndAt end(unsigned place) { return {kEndsAt + place * kEndWords}; }
  static RONDO_FN EndAt end() { return end(device::lane_index()); }

  // By the control warp: moves its CTA's items.
  static RONDO_FN void run_ring(const Args& args, const JobRing& ring) {
    const unsigned last = args.first[device::cta_index() + 1];
    unsigned next = args.first[device::cta_index()];
    Open mine;
    RONDO_NO_UNROLL
    for (;;) {
      // A lane reads what another has written: the number of the next job, an end. Ballots order no
      // accesses to memory.
      device::sync_warp();
      std::uint32_t ready = device::ballot(may_go_on(args, mine));
      if (ready == 0) ready = device::ballot(learns_to_go_on(args, mine));
      if (ready == 0) {
        if (next != last && opens(args, next, &mine)) {
          next = behind(args, next);
          continue;
        }
        const std::uint32_t open = device::ballot(mine.item != kNone);
        if (open == 0 || !wait_for_any(args, mine, device::lowest_bit(open))) return;
        continue;
      }
      const bool chosen = device::lowest_bit(ready) == device::lane_index();
      if (!device::any(chosen && write_job(args, ring, &mine))) return;
      const bool over = chosen && mine.is_over(args);
      if (!device::any(over)) continue;
      const bool goes_on = over && next != last && shares_end(args, mine.item, next);
      if (over && !goes_on) save(end_of(args, mine.item));
      if (over) mine = Open(goes_on ? next : kNone);
      if (device::any(goes_on)) ++next;
    }
  }
  static RONDO_FN bool shares_end(const Args& args, unsigned item, unsigned other) {
    return item != kNone && !args.copies(item) && end_of(args, item) == end_of(args, other);
  }
  static RONDO_FN bool may_go_on(const Args& args, const Open& mine) {
    return mine.item != kNone &&
           (args.copies(mine.item) || cuda::may_go_on(end(), !args.sends(mine.item)));
  }
  static RONDO_FN bool learns_to_go_on(const Args& args, const Open& mine) {
    return mine.item != kNone && cuda::learns_to_go_on(end(), !args.sends(mine.item));
  }

  // Opens an item in a free lane. False: no lane is free, or an item of the same end is open.
  static RONDO_FN bool opens(const Args& args, unsigned item, Open* mine) {
    const std::uint32_t free =
        device::ballot(mine->item == kNone && device::lane_index() < kMessageWindow);
    const bool is_open = device::any(shares_end(args, mine->item, item));
    if (is_open || free == 0) return false;
    const unsigned place = device::lowest_bit(free);
    if (!args.copies(item)) load(station_of(args, item), args.end[item], end(place));
    if (device::lane_index() == place) *mine = Open(item);
    return true;
  }
  // Waits until one of the open items may continue. Reports the item of lane `place` as the waiter.
  static RONDO_FN bool wait_for_any(const Args& args, const Open& mine, unsigned place) {
    const unsigned item = device::shuffle(mine.item, place);
    const MessageStation& station = station_of(args, item);
    const std::uint64_t step = end(place).step();
    return wait_together(
        [&] { return device::any(learns_to_go_on(args, mine)); }, station.control, args.call,
        {args.end[item] % kMessageChannels, end(place).peer(), step, args.sends(item)},
        WaitReporter{station.waits + args.end[item], static_cast<std::uint32_t>(step) + 1});
  }

  static RONDO_FN void load(const MessageStation& station, unsigned number, EndAt end) {
    DeviceEnd* const at = station.ends + number;
    const unsigned lane = device::lane_index();
    device::sync_warp();
    if (lane < kEndWords)
      write_word(end.at + lane, device::load(reinterpret_cast<const std::uint64_t*>(at) + lane));
    device::sync_warp();
    if (lane == 0 && end.slot_count() == 0)
      connect(at, station.links + number / kMessageChannels, number % kMessageChannels, end);
    device::sync_warp();
  }
  // Fills in an end at its first launch and stores it for all later ones.
  static RONDO_FN void connect(DeviceEnd* at, const MessageLink* link, std::uint64_t channel,
                               EndAt end) {
    const std::uint64_t bytes = device::load(&link->slot_bytes);
    const std::uint64_t slots = device::load(&link->slot_count);
    const auto set = [&](std::uint64_t offset, std::uint64_t value) {
      write_word(end.at + static_cast<std::uint32_t>(offset) / 8, value);
      device::store(reinterpret_cast<std::uint64_t*>(at) + offset / 8, value);
    };
    const auto counter = [channel](std::byte* first) {
      return reinterpret_cast<std::uintptr_t>(first) + channel * kMessageCounterBytes;
    };
    set(offsetof(DeviceEnd, connection.buffer),
        reinterpret_cast<std::uintptr_t>(device::load(&link->slots)) + channel * slots * bytes);
    set(offsetof(DeviceEnd, connection.slot_bytes), bytes);
    set(offsetof(DeviceEnd, connection.slot_count), slots);
    set(offsetof(DeviceEnd, connection.tail), counter(device::load(&link->tails)));
    set(offsetof(DeviceEnd, connection.head), counter(device::load(&link->heads)));
    if (std::uint64_t* const used = device::load(&link->used); used != nullptr)
      set(offsetof(DeviceEnd, connection.used),
          reinterpret_cast<std::uintptr_t>(used + channel * slots));
    set(offsetof(DeviceEnd, connection.peer),
        static_cast<std::uint32_t>(device::load(&link->peer)));
  }
  // Saves the end's state for the lane that opens it next.
  static RONDO_FN void save(DeviceEnd* at) {
    if (at == nullptr) return;
    device::store(&at->step, end().step());
    device::store(&at->known, end().known());
    device::store(&at->next_slot, static_cast<std::int32_t>(end().next_slot()));
  }

  // Writes the job for the next slot of the lane's item; the slot must be ready. False if the CTA
  // has failed.
  static RONDO_FN bool write_job(const Args& args, const JobRing& ring, Open* mine) {
    if (cta_failed()) return false;
    const unsigned item = mine->item;
    const bool copies = args.copies(item), sends = !copies && args.sends(item);
    const bool receives = !copies && !sends;
    const std::uint64_t head = mine->read_count(args, copies ? EndAt{0} : end());
    if (head == kWrongCount) return fail_cta(), false;
    const std::uint64_t left = mine->bytes(args) - mine->moved;
    if (copies && left == 0) return true;
    const std::uint64_t maximum = copies ? left : end().slot_bytes();
    const std::uint64_t bytes = head == kNoHead ? (left < maximum ? left : maximum) : 0;
    const unsigned number = ring.next();
    const std::uint32_t job = ring.at(number);
    std::uint64_t slot = 0, counter = 0, now = 0;
    if (!copies) {
      now = end().step();
      slot = reinterpret_cast<std::uintptr_t>(end().slot());
      counter = reinterpret_cast<std::uintptr_t>(sends ? end().tail() : end().head());
      // Ordered by the signal warp's fence, through the workers.
      if (std::uint64_t* const used = end().used(); sends && used != nullptr)
        device::store_relaxed<device::Scope::kSystem>(used + end().next_slot(),
                                                      head == kNoHead ? bytes : sizeof(head));
      if (head != kNoHead && sends)
        device::store_relaxed<device::Scope::kSystem>(reinterpret_cast<std::uint64_t*>(slot), head);
      end().turn();
      end().set_step(now + 1);
    }
    const std::uintptr_t at = mine->at(args) + mine->moved;
    RONDO_NO_UNROLL
    for (unsigned w = 0; w < kJobWords; ++w) write_word(job + w, 0);
    write_word(job + kFrom, receives ? slot : 0);
    write_word(job + kTo, sends ? slot : 0);
    write_word(job + kOwn, receives ? 0 : at);
    write_word(job + kKeep, receives ? at : 0);
    if (copies) write_word(job + kKeep, mine->target(args));
    write_word(job + kCount, bytes);
    write_word(job + kPosts, counter);
    write_word(job + kPosts + 1, now + 1);
    ring.publish(number);
    mine->moved += bytes;
    return true;
  }

  static RONDO_FN void work(const JobRing& ring) {
    RONDO_NO_UNROLL
    for (unsigned number = 0;; ++number) {
      const JobOperands job = JobOperands::read(ring.wait_for(number));
      const bool is_last = (job.how & kLast) != 0;
      if (!is_last && !cta_failed())
        SimpleMover<CopyMath>{job, ring.group.worker(), ring.group.workers(), {}}.run();
      ring.finish(number);
      if (is_last) return;
    }
  }
};

using Messages = MessageKernel<MessageArgs>;
using CountedMessages = MessageKernel<CountedMessageArgs>;

}  // namespace rondo::cuda
