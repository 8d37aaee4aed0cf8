// SPDX-License-Identifier: Apache-2.0
// WaitGraph: which rank waits for which, and in which call, from what ranks publish while they
// wait.
//
// It finds waits that can never end (ranks that wait for each other in a cycle, in different calls;
// a rank that waits for this one but is outside this rank's collective). It also finds the rank at
// the end of a chain of waits, and describes all ranks. Guarantees: no rank that can still continue
// is reported as stuck. Cost: a few loads per rank, only in waits of at least kCycleWait. The first
// such waits allocate memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/faults/rank_report.h"
#include "collectives/rank/rank_context.h"
#include "collectives/watchdog/status_exchange.h"

namespace rondo {

class WaitGraph : RankPart {
 public:
  static constexpr std::int64_t kCycleWait = 50'000'000;  // ns

  WaitGraph(RankContext& context, const StatusExchange& statuses)
      : RankPart(context), statuses_(statuses) {}

  void begin_wait() { cycle_.clear(); }
  // Raises a fault and returns true if this rank's wait can never end.
  bool check(std::int64_t waited_ns);

  // The rank at the end of the chain of waits that begins with rank `awaited`: one that is stopped,
  // has not arrived, or does not wait.
  int last_of_chain(int awaited) const;
  std::string describe_ranks() const;  // one line per rank

 private:
  struct Member {
    int rank, waiting_for;
    std::uint32_t waits, checks, quiet;
    bool crosses;  // it waits for a rank of another host
    CallRecord call;
  };
  struct Outsider {
    std::uint32_t waits = 0, checks = 0;  // values when first seen
    std::uint64_t sequence = 0;           // this rank's call at that time
  };
  std::optional<RankReport> report_on(int global) const;
  bool follow_cycle(std::vector<Member>& found) const;
  bool check_cycle();
  bool check_outsiders();
  std::string describe_rank(int global) const;

  const StatusExchange& statuses_;
  std::vector<Member> cycle_, cycle_now_;  // ranks that waited for each other
  std::vector<Outsider> outsiders_;  // by rank: waits for this rank in a message, outside its call
};

}  // namespace rondo
