// SPDX-License-Identifier: Apache-2.0
// Staging: a rank's own part of the staging memory, backed with pages as it is used.
//
// An algorithm's slots rotate by one from call to call (by the call's number, equal on all ranks),
// so that consecutive small calls do not wait for the readers of the previous one. Calls of little
// data from or to a root use one part of a slot each, in turn: the rank that is ahead of its
// readers waits only when it is kStagingSlots * parts calls ahead.
// Guarantees: memory that own() returns is backed. open() waits for the readers of the slot's, or
// its part's, last contents. Cost: one comparison per verb; a system call while the slots grow.
#pragma once

#include <algorithm>
#include <cassert>

#include "kernels/host/announcer.h"

namespace rondo::host {

class Staging {
 public:
  // parts: a power of two up to kSlotParts, equal on all ranks. More than one: a slot holds at most
  // kPartedBytes / parts.
  Staging(HostRank& rank, std::size_t element, std::uint64_t call, int parts = 1)
      : rank_(rank),
        element_(element),
        parts_(parts),
        turn_(static_cast<int>(call % kStagingSlots)),
        part_(static_cast<int>(call / kStagingSlots) & (parts - 1)) {
    assert((parts & (parts - 1)) == 0 && parts <= kSlotParts);
    assert(element > 0 && parts > 0);
  }

  std::byte* of(int r, int slot, std::uint64_t window) const {
    assert(r >= 0 && r < rank_.size && slot >= 0 && slot < kStagingSlots);
    assert(window * element_ <= part_bytes());
    return rank_.peers[r].staging + turned(slot) * rank_.slot_bytes + begin() + window * element_;
  }

  // Waits until no rank reads the slot any more.
  void open(Announcer& announcer, int slot) const {
    assert(slot >= 0 && slot < kStagingSlots);
    SlotUse& use = rank_.slots[turned(slot)];
    if (use.parts != parts_) divide(use);
    const std::uint64_t last = use.last[part_];
    if (last == 0) return;
    for (int r = 0; r < rank_.size && !announcer.failed(); ++r)
      if (r != rank_.rank) announcer.wait_step(r, last + 1);
  }

  // An address in this rank's own staging; null (and the call fails) if there is no memory.
  std::byte* own(Announcer& announcer, int slot, std::uint64_t window, std::uint64_t count) {
    const std::size_t end = (window + count) * element_;
    assert(slot >= 0 && slot < kStagingSlots && end <= part_bytes());
    if (begin() + end > rank_.slots[turned(slot)].committed && !grow(slot, begin() + end)) {
      announcer.fail();
      return nullptr;
    }
    return of(rank_.rank, slot, window);
  }

  // The same, for data that peers will read once the next step is published.
  std::byte* own_published(Announcer& announcer, int slot, std::uint64_t window,
                           std::uint64_t count) {
    SlotUse& use = rank_.slots[turned(slot)];
    assert(use.parts == parts_);
    use.last[part_] = rank_.step + 1;
    rank_.staged_bytes += count * element_;
    return own(announcer, slot, window, count);
  }

 private:
  int turned(int slot) const { return (slot + turn_) % kStagingSlots; }
  std::size_t part_bytes() const {
    return parts_ == 1 ? rank_.slot_bytes : kPartedBytes / static_cast<std::size_t>(parts_);
  }
  std::size_t begin() const { return parts_ == 1 ? 0 : part_bytes() * part_; }

  // From now on the slot has other parts. Each may overlap with the slot's newest contents.
  void divide(SlotUse& use) const {
    const std::uint64_t newest = *std::max_element(use.last, use.last + use.parts);
    use.parts = parts_;
    std::fill_n(use.last, parts_, newest);
  }

  bool grow(int slot, std::size_t end) {
    assert(end <= rank_.slot_bytes);
    std::size_t& committed = rank_.slots[turned(slot)].committed;
    std::size_t target = committed == 0 ? kPartedBytes : committed * 2;
    while (target < end) target *= 2;
    if (target > rank_.slot_bytes) target = rank_.slot_bytes;
    if (!rank_.commit(rank_.self().staging + turned(slot) * rank_.slot_bytes + committed,
                      target - committed))
      return false;
    assert(end <= target && target <= rank_.slot_bytes);
    committed = target;
    return true;
  }

  HostRank& rank_;
  std::size_t element_;
  int parts_, turn_, part_;
};

}  // namespace rondo::host
