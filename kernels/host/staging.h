// Staging: a rank's own part of the staging memory, backed with pages as it is used.
//
// An algorithm's slots rotate by one from call to call (by the call's number, equal on all ranks),
// so that consecutive small calls do not wait for the readers of the previous one.
// Guarantees: memory that own() returns is backed. slot_last gives open() the step that published
// the slot's contents. Cost: one comparison per verb; a system call while the slots grow.
#pragma once

#include <cassert>

#include "kernels/host/announcer.h"

namespace rondo::host {

class Staging {
 public:
  Staging(HostRank& rank, std::size_t element, std::uint64_t call)
      : rank_(rank), element_(element), turn_(static_cast<int>(call % kStagingSlots)) {}

  std::byte* of(int r, int slot, std::uint64_t window) const {
    return rank_.peers[r].staging + turned(slot) * rank_.slot_bytes + window * element_;
  }

  // Waits until no rank reads the slot any more.
  void open(Announcer& announcer, int slot) const {
    const std::uint64_t last = rank_.slot_last[turned(slot)];
    if (last == 0) return;
    for (int r = 0; r < rank_.size && !announcer.failed(); ++r)
      if (r != rank_.rank) announcer.wait_step(r, last + 1);
  }

  // An address in this rank's own staging; null (and the call fails) if there is no memory.
  std::byte* own(Announcer& announcer, int slot, std::uint64_t window, std::uint64_t count) {
    const std::size_t end = (window + count) * element_;
    assert(slot >= 0 && slot < kStagingSlots && end <= rank_.slot_bytes);
    if (end > rank_.slot_committed[turned(slot)] && !grow(slot, end)) {
      announcer.fail();
      return nullptr;
    }
    return of(rank_.rank, slot, window);
  }

  // The same, for data that peers will read once the next step is published.
  std::byte* own_published(Announcer& announcer, int slot, std::uint64_t window,
                           std::uint64_t count) {
    rank_.slot_last[turned(slot)] = rank_.step + 1;
    rank_.staged_bytes += count * element_;
    return own(announcer, slot, window, count);
  }

 private:
  int turned(int slot) const { return (slot + turn_) % kStagingSlots; }

  bool grow(int slot, std::size_t end) {
    std::size_t& committed = rank_.slot_committed[turned(slot)];
    std::size_t target = committed == 0 ? std::size_t{64} << 10 : committed * 2;
    while (target < end) target *= 2;
    if (target > rank_.slot_bytes) target = rank_.slot_bytes;
    if (!rank_.commit(of(rank_.rank, slot, 0) + committed, target - committed)) return false;
    assert(end <= target && target <= rank_.slot_bytes);
    committed = target;
    return true;
  }

  HostRank& rank_;
  std::size_t element_;
  int turn_;
};

}  // namespace rondo::host
