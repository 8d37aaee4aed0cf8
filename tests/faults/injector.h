// SPDX-License-Identifier: Apache-2.0
// Makes the Nth call of one kind fail in this process, as if the system had refused it. It covers
// calls of this program and of libraries below it, but no calls inside libc. operator new counts as
// one kind.
//
//   arm(Kind::kSocket, 3);  work();  const Outcome seen = disarm();   // seen.fired, seen.calls
#pragma once

#include <cstdint>
#include <string_view>

namespace rondo::test {

enum class Kind {
  kNone,
  kSocket,
  kAccept,
  kMemfd,
  kMmap,
  kPidfd,
  kThread,
  kEventfd,
  kEpoll,
  kDup,
  kResize,
  kPopulate,
  kSendmsg,
  kAllocation,
  kCount
};
std::string_view name_of(Kind kind);
Kind kind_of(std::string_view name);  // kNone: no such kind

struct Outcome {
  bool fired = false;
  std::uint64_t calls = 0;  // calls of that kind while armed
};
void arm(Kind kind, std::uint64_t nth);  // counted from 1; 0: only counts
Outcome disarm();

// Number of mappings that this program has made and not unmapped.
std::int64_t live_mappings();

}  // namespace rondo::test
