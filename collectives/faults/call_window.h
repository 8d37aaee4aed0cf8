// SPDX-License-Identifier: Apache-2.0
// CallWindow: the newest calls of a communicator, each as the first rank reported it. Calls of all
// other ranks are compared with that report.
//
// Guarantees: if two ranks make different calls and are less than kCalls calls apart, the second
// report is recognized as different. Cost: 64 KiB; one comparison per call.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"

namespace rondo::gpu {

class CallWindow {
 public:
  static constexpr std::uint64_t kCalls = 1024;

  struct Entry {
    std::uint64_t number = 0;  // from 1
    int rank = -1;
    CallRecord call;
    std::uint64_t digest = 0;  // of all calls up to this one, if the reporter knows it
    bool is_same(const Entry& other) const { return call == other.call && digest == other.digest; }
  };
  // kFirst: first report of this call. kOther: differs from `before`, the first report. kPast: the
  // window no longer holds this call.
  enum Verdict : std::uint8_t { kFirst, kSame, kOther, kPast };
  Verdict compare(const Entry& entry, Entry* before) {
    reported_.resize(kCalls);
    Entry& known = reported_[entry.number % kCalls];
    if (known.number > entry.number) return kPast;
    if (known.number < entry.number) {
      known = entry;
      return kFirst;
    }
    *before = known;
    return known.is_same(entry) ? kSame : kOther;
  }

 private:
  std::vector<Entry> reported_;  // call n is at [n % kCalls]
};

}  // namespace rondo::gpu
