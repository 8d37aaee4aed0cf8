// Withdrawal: taking back memory that peers of this host may still be reading or writing when a
// call has failed.
//
// A peer that runs ends what it touches in a moment. One that stands still may go on at any time,
// in the middle of a copy into a buffer that has been given back to the program: it must then find
// other memory there. The arena can do that for memory of ncclMemAlloc; other processes reach no
// other. Ranks of this process stand still only with all of it, or under a debugger. Cost: nothing
// in calls that succeed.
#pragma once

#include <cstdint>

#include "collectives/communicator/rank_context.h"

namespace rondo {

namespace test {
struct WithdrawalSeam;
}

class Withdrawal : RankPart {
 public:
  explicit Withdrawal(RankContext& context) : RankPart(context) {}

  // Supervises a wait for the end of peers' touches (HostRank::await_touches). Peers that have
  // ended, or are seen to stand still, are not waited for; others for a moment.
  bool await_touches(const WaitSite& site, bool first);
  // Of a rank of another process, when the wait for them ended.
  bool touches_may_go_on() const { return touches_may_go_on_; }
  // Takes memory out of peers' reach.
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
