// SPDX-License-Identifier: Apache-2.0
// Counts the calls of malloc and operator new that a thread of this test program makes.
//
//   AllocationCount count;  work();  EXPECT_EQ(count.so_far(), 0);
// A call that waits for long looks for deadlocks and allocates memory for that: count.may_wait() is
// true where the work has lasted so long.
// Not available under a sanitizer, which has its own allocator: kWatched is false then.
#pragma once

#include <cstddef>

#include "base/seconds.h"
#include "collectives/watchdog/wait_graph.h"

namespace rondo::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kWatched = false;
#else
inline constexpr bool kWatched = true;
#endif

std::size_t allocations_of_this_thread();

class AllocationCount {
 public:
  AllocationCount() : before_(allocations_of_this_thread()), begun_(now_ns()) {}
  std::size_t so_far() const { return allocations_of_this_thread() - before_; }
  bool may_wait() const { return now_ns() - begun_ >= WaitGraph::kCycleWait; }

 private:
  std::size_t before_;
  std::int64_t begun_;
};

}  // namespace rondo::test
