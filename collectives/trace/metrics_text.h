// SPDX-License-Identifier: Apache-2.0
// The metrics of a host's ranks as Prometheus text (exposition format 0.0.4).
//
// Counters of calls and bytes are those of the black boxes (TraceRing), so they miss nothing.
// Lateness is counted by LateSums, from the calls that the boxes still hold at each look: where
// more than 4096 calls pass between two looks it is a sample; rondo_skew_calls_total counts its
// calls. Label values: a communicator has its name, or #N where it has none, counted by size;
// rondo_communicator_info joins it to its id. Cost: a copy of each rank's box.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/trace/call_skew.h"

namespace rondo::trace {

class LateSums {
 public:
  struct OfRank {
    std::uint64_t calls = 0;  // to which it came last
    std::int64_t late_ns = 0;
  };
  struct OfComm {
    std::uint64_t newest = 0;  // last call that counted
    std::uint64_t calls = 0;   // calls that counted
    std::map<int, OfRank> ranks;
  };

  // Adds the calls that have ended on all ranks since the last look.
  void add(std::span<const TracedComm> comms);
  const OfComm& of(const TracedComm& comm) const;

 private:
  std::map<std::uint64_t, OfComm> comms_;  // by communicator
};

// A rank for which others have waited long: the one that `rondo ps` names.
struct Culprit {
  std::uint64_t communicator = 0;
  int rank = -1;
  double seconds = 0;             // the longest wait for it
  bool is_of_other_host = false;  // there it may itself wait for another rank
};

// "world", or "#1" for the second communicator without a name of its own.
std::vector<std::string> labels_of(std::span<const TracedComm> comms);

// All metrics, each with HELP and TYPE.
std::string metrics_text(std::span<const TracedComm> comms, const LateSums& late,
                         std::span<const Culprit> culprits = {});
// What scrapers may rely on: the text's content type.
inline constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace rondo::trace
