// The kernel of messages: what ranks of one device send to ranks of others and receive from them,
// in one launch; copies within the device beside it.
//
// A CTA has a control warp, a signal warp and workers, as the kernels over connections do
// (cta_memory.h): it waits for a slot while the slot before is moved, and tells the peer of the one
// before that. Guarantees: any alignment; what is sent is read once, and crosses once to the
// receiver's slots; no wait that outlives Control::abort by much; a wait that lasts is told to the
// host, with the slot's number (Station::waits), until it ends. Whoever cuts messages into items
// and launches sees to it that no CTA waits for one behind it (message_launches.h). Cost: where
// nothing is waited for, two barriers of the CTA and a posted store to the peer a slot.
#pragma once

#include "kernels/cuda/end_wait.h"
#include "kernels/cuda/message_args.h"
#include "kernels/cuda/signal_warp.h"
#include "kernels/cuda/simple_mover.h"

namespace rondo::cuda {

// A long wait of an end, in host memory.
struct WaitTold {
  std::uint32_t* word;
  std::uint32_t slot;  // + 1
  RONDO_FN void waits() const { device::store_relaxed<device::Scope::kSystem>(word, slot); }
  RONDO_FN void goes_on() const { device::store_relaxed<device::Scope::kSystem>(word, 0u); }
};

template <class Faults = NoFaults>
struct Messages {
  using Args = MessageArgs;
  static constexpr int kThreads = kMessageThreads;
  static constexpr int kCtas = 1;

  static RONDO_FN void run(const Args& args) {
    const Group group{0, device::thread_count(), device::warp_index()};
    if (device::thread_index() == 0) {
      begin_waits();
      write_word(kNumbersAt, 0);
    }
    device::barrier();
    if (group.warp == 0) {
      play(args, group);
      write_last_job(group);
    } else if (group.warp == 1) {
      post_jobs<Faults>(group);
    } else {
      work(group);
    }
  }

 private:
  using Item = MessageArgs::Item;
  static constexpr bool is_copy(const Item& item) {
    return item.from != nullptr && item.to != nullptr;
  }
  static RONDO_FN std::uint64_t bytes_of(const Item& item) { return item.bytes; }
  // Who waits, for the slot of this number (from 1).
  struct Waiter {
    const Args& args;
    const Item& item;
    std::uint32_t slot;

    RONDO_FN const Args::Station& station() const { return args.station[item.station]; }
    RONDO_FN Control* control() const { return station().control; }
    RONDO_FN const CallRecord& call() const { return args.call; }
    RONDO_FN int channel() const { return item.end % kMessageChannels; }
    RONDO_FN WaitTold told() const { return {station().waits + item.end, slot}; }
  };
  // The end that is played, in shared memory.
  static RONDO_FN EndAt end() { return end_at(0, 0); }

  // By the control warp: its CTA's items.
  static RONDO_FN void play(const Args& args, const Group& group) {
    DeviceEnd* open = nullptr;
    RONDO_NO_UNROLL
    for (unsigned i = args.first[device::cta_index()]; i < args.first[device::cta_index() + 1];
         ++i) {
      const Item& item = args.item[i];
      DeviceEnd* const at = is_copy(item) ? nullptr : args.station[item.station].ends + item.end;
      if (at != open) {
        save(open);
        if (at != nullptr) load(args.station[item.station], item.end);
        open = at;
      }
      std::uint64_t bytes = bytes_of(item), moved = 0;
      RONDO_NO_UNROLL
      while (moved < bytes) {
        const std::uint64_t most = at == nullptr ? bytes : end().slot_bytes();
        const std::uint64_t part = bytes - moved < most ? bytes - moved : most;
        std::uint32_t written = 0;
        if (device::lane_index() == 0) written = write_job(args, group, item, moved, part) ? 1 : 0;
        if (device::shuffle(written, 0) == 0) return;
        group.begin_job();
        moved += part;
      }
    }
    save(open);
  }
  static RONDO_FN void load(const MessageArgs::Station& station, unsigned number) {
    DeviceEnd* const at = station.ends + number;
    const unsigned lane = device::lane_index();
    device::sync_warp();
    if (lane < kEndWords)
      write_word(end().at + lane, device::load(reinterpret_cast<const std::uint64_t*>(at) + lane));
    device::sync_warp();
    if (end().slot_count() == 0 && lane == 0)
      connect(at, station.links + number / kMessageChannels, number % kMessageChannels);
    device::sync_warp();
  }
  // What its first launch learns of an end, and keeps for all others.
  static RONDO_FN void connect(DeviceEnd* at, const MessageLink* link, std::uint64_t channel) {
    const std::uint64_t bytes = device::load(&link->slot_bytes);
    const std::uint64_t slots = device::load(&link->slot_count);
    const auto set = [&](std::uint64_t offset, std::uint64_t value) {
      write_word(end().at + static_cast<std::uint32_t>(offset) / 8, value);
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
  // What the next launch must know.
  static RONDO_FN void save(DeviceEnd* at) {
    if (at == nullptr || device::lane_index() != 0) return;
    device::store(&at->step, end().step());
    device::store(&at->known, end().known());
    device::store(&at->next_slot, static_cast<std::int32_t>(end().next_slot()));
  }

  // Bytes [moved, moved + bytes) of an item, by one thread. False where the CTA has failed.
  static RONDO_FN bool write_job(const Args& args, const Group& group, const Item& item,
                                 std::uint64_t moved, std::uint64_t bytes) {
    if (cta_failed()) return false;
    const bool sends = item.to == nullptr, receives = item.from == nullptr;
    const std::uint64_t number = read_word(kNumbersAt + group.number);
    const std::uint32_t job = job_at(group.number, number);
    std::uint64_t slot = 0, counter = 0, now = 0;
    if (sends || receives) {
      now = end().step();
      const Waiter waiter{args, item, static_cast<std::uint32_t>(now) + 1};
      if (!wait_for_end<Faults>(end(), receives, waiter)) return false;
      slot = reinterpret_cast<std::uintptr_t>(end().slot());
      counter = reinterpret_cast<std::uintptr_t>(sends ? end().tail() : end().head());
      // The signal warp's fence covers it: two barriers are between.
      if (std::uint64_t* const used = end().used(); sends && used != nullptr)
        device::store_relaxed<device::Scope::kSystem>(used + end().next_slot(), bytes);
      if (!(Faults::kStaysInSlot && sends && now == 3)) end().turn();
      end().set_step(now + 1);
    }
    const auto from = reinterpret_cast<std::uintptr_t>(item.from) + moved;
    const auto to = reinterpret_cast<std::uintptr_t>(item.to) + moved;
    RONDO_NO_UNROLL
    for (unsigned w = 0; w < kJobWords; ++w) write_word(job + w, 0);
    write_word(job + kFrom, receives ? slot : 0);
    write_word(job + kTo, sends ? slot : 0);
    write_word(job + kOwn, receives ? 0 : from);
    write_word(job + kKeep, sends ? 0 : to);
    write_word(job + kCount, bytes);
    write_word(job + kPosts, counter);
    write_word(job + kPosts + 1, now + 1);
    write_word(kNumbersAt + group.number, number + 1);
    return true;
  }

  static RONDO_FN void work(const Group& group) {
    RONDO_NO_UNROLL
    for (std::uint64_t number = 0;; ++number) {
      group.begin_job();
      const JobPlaces job = JobPlaces::read(job_at(group.number, number));
      if ((job.how & kLast) == 0 && !cta_failed())
        SimpleMover<CopyMath>{job, group.worker(), group.workers(), {}}.run();
      group.end_job();
      if ((job.how & kLast) != 0) return;
    }
  }
};

}  // namespace rondo::cuda
