// SPDX-License-Identifier: Apache-2.0
// RecentPlans: the plans of the calls that a communicator made last, found by their records.
//
// A program makes the same few calls in turn: a bucket of gradients, the next one, a norm, a
// barrier. A plan costs 0.4 to 0.8 us, twice as much as a small call.
// Guarantees: find() gives what put() was given for an equal record, or nullptr; a plan may be
// replaced by that of another record. Used by one thread at a time. Cost: find() one product and
// one comparison; no memory beyond the object.
//
//   const Plan* plan = plans.find(record);
//   if (plan == nullptr) plan = &plans.put(record, make(record));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/types.h"

namespace rondo {

template <class Plan>
class RecentPlans {
 public:
  static constexpr int kBits = 6;
  static constexpr std::size_t kPlans = std::size_t{1} << kBits;

  // Valid until the next put() or forget().
  const Plan* find(const CallRecord& record) const {
    const Entry& entry = entries_[place(record)];
    return entry.record == record ? &entry.plan : nullptr;
  }
  const Plan& put(const CallRecord& record, Plan plan) {
    Entry& entry = entries_[place(record)];
    entry.record = record;
    entry.plan = std::move(plan);
    return entry.plan;
  }
  void forget() {
    for (Entry& entry : entries_) entry.record = CallRecord{};
  }

  // Counts that follow each other lie in different places.
  static std::size_t place(const CallRecord& record) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio (Knuth, TAOCP 6.4)
    const std::uint64_t kind = static_cast<std::uint64_t>(record.collective) |
                               static_cast<std::uint64_t>(record.type) << 8 |
                               static_cast<std::uint64_t>(record.op) << 16 |
                               static_cast<std::uint64_t>(record.excluded) << 24 |
                               static_cast<std::uint64_t>(record.root) << 36;
    return ((record.count + kind * kGolden) * kGolden) >> (64 - kBits);
  }

 private:
  struct Entry {
    CallRecord record;  // kNone: no plan
    Plan plan{};
  };
  std::array<Entry, kPlans> entries_;
};

}  // namespace rondo
