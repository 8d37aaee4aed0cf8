// SPDX-License-Identifier: Apache-2.0
// Withdrawal: after a failed call, takes back memory that peers of this host may still be reading
// or writing.
//
// A peer that runs finishes its accesses within moments. A stopped peer may resume at any time, in
// the middle of a copy into a buffer that the program already reuses: it must then find other
// memory at that address. The arena can do this for memory of ncclMemAlloc; other processes reach
// no other memory. Ranks of this process stop only together with it, or under a debugger. Cost:
// nothing in calls that succeed.
#pragma once

#include <cstdint>

#include "collectives/rank/rank_context.h"

namespace rondo {

namespace test {
struct WithdrawalSeam;
}

class Withdrawal : RankPart {
 public:
  explicit Withdrawal(RankContext& context) : RankPart(context) {}

  // Supervises a wait for the end of peers' accesses (HostRank::await_touches). Does not wait for
  // peers that ended or are stopped; waits at most 1 s for peers in other processes.
  bool await_touches(const WaitSite& site, bool first);
  // True if a rank of another process may still access memory after that wait.
  bool touches_may_go_on() const { return touches_may_go_on_; }
  // Makes the memory unreachable for peers.
  Status cut_off(const void* memory, std::size_t bytes);
  static bool is_reachable(const void* memory, std::size_t bytes);

  // HostRank's hooks of these names.
  void cut_off_exposed(const host::HostCall& call, std::uint32_t exposure);
  std::uint32_t exposable(const host::HostCall& call, std::uint32_t exposure) const;
  bool still_whole(const host::HostCall& call);

 private:
  friend struct test::WithdrawalSeam;
  std::int64_t began_ns_ = 0, last_look_ns_ = 0;
  bool touches_may_go_on_ = false;
};

}  // namespace rondo
