// CallWindow: the newest calls of a communicator, each as reported by the first rank, so that the
// calls of all other ranks are compared with one.
//
// Guarantees: of two ranks that make different calls, the one that reports later is found, as long
// as they are less than kCalls calls apart. Cost: 64 KiB; one comparison a call.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"

namespace rondo::gpu {

class CallWindow {
 public:
  static constexpr std::uint64_t kCalls = 1024;

  struct Told {
    std::uint64_t number = 0;  // from 1
    int rank = -1;
    CallRecord call;
    std::uint64_t digest = 0;  // of all calls up to it, where the reporter knows it
    bool is_same(const Told& other) const { return call == other.call && digest == other.digest; }
  };
  // kFirst: nobody has told that one before. kOther: `before` is another call. kPast: it is too
  // long ago.
  enum Verdict : std::uint8_t { kFirst, kSame, kOther, kPast };
  Verdict compare(const Told& told, Told* before) {
    reported_.resize(kCalls);
    Told& known = reported_[told.number % kCalls];
    if (known.number > told.number) return kPast;
    if (known.number < told.number) {
      known = told;
      return kFirst;
    }
    *before = known;
    return known.is_same(told) ? kSame : kOther;
  }

 private:
  std::vector<Told> reported_;  // of number n: [n % kCalls]
};

}  // namespace rondo::gpu
