// WaitGraph: who waits for whom, in which call: what ranks tell of themselves while they wait.
//
// It finds waits that can never end (ranks that wait for each other in a cycle, in different calls;
// a rank that waits for this one outside the collective that it is in), the rank that is behind a
// chain of waits, and describes all ranks. Guarantees: no rank is told to be stuck that can still
// go on. Cost: some loads a rank; only in waits that last.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator/rank_context.h"
#include "collectives/watchdog/rank_report.h"
#include "collectives/watchdog/status_exchange.h"

namespace rondo {

class WaitGraph : RankPart {
 public:
  WaitGraph(RankContext& context, const StatusExchange& statuses)
      : RankPart(context), statuses_(statuses) {}

  void begin_wait() { cycle_.clear(); }
  // True, and a fault, where this rank's wait will never end.
  bool check(std::int64_t waited_ns);

  // Who is behind a wait for rank `awaited`: it may be waiting itself, for another rank, and so on,
  // to one that stands still or has not come.
  int last_of_chain(int awaited) const;
  std::string describe_ranks() const;  // a line a rank

 private:
  struct Member {
    int rank, waiting_for;
    std::uint32_t waits, checks, quiet;
    bool crosses;  // waits for a rank of another host
    CallRecord call;
  };
  struct Outsider {
    std::uint32_t waits = 0, checks = 0;  // as first seen
    std::uint64_t sequence = 0;           // in this rank's call of that number
  };
  std::optional<RankReport> report_on(int global) const;
  bool follow_cycle(std::vector<Member>& found) const;
  bool check_cycle();
  bool check_outsiders();
  std::string describe_rank(int global) const;

  const StatusExchange& statuses_;
  std::vector<Member> cycle_, cycle_now_;  // ranks seen waiting for each other
  std::vector<Outsider> outsiders_;  // by rank: waits for this one in a message, outside its call
};

}  // namespace rondo
