// SPDX-License-Identifier: Apache-2.0
// Traces of a job of three ranks for tests: call 2 has a late rank, call 3 hangs. A message follows
// each call but is not traced, so the records' numbers are not those of the calls.
#pragma once

#include <vector>

#include "collectives/trace/rank_trace.h"

namespace rondo::test {

inline trace::TracedCall traced_call(std::uint64_t sequence, std::int64_t entered_ns,
                                     std::int64_t ended_ns) {
  trace::TracedCall call;
  call.number = 2 * sequence - 1;
  call.sequence = sequence;
  call.call = {1024, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
  call.entered_ns = entered_ns;
  call.ended_ns = ended_ns;
  call.algorithm = "twoshot";
  call.protocol = "staged";
  return call;
}

// Rank 1 comes 41 ms late to call 2, and does not enter call 3.
inline std::vector<trace::RankTrace> sample_traces() {
  std::vector<trace::RankTrace> traces;
  for (int r = 0; r < 3; ++r) {
    trace::RankTrace& rank = traces.emplace_back();
    rank.communicator = 0x1f2e3d4c5b6a7988;
    rank.name = "weights";
    rank.size = 3;
    rank.rank = r;
    rank.pid = 100 + r;
    rank.host = "a";
    rank.wall_ns = 1'700'000'000'000'000'000;
    rank.calls.push_back(traced_call(1, 1'000'000, 1'500'000));
    const std::int64_t entered = r == 1 ? 43'000'000 : 2'000'000 + r * 1000;
    rank.calls.push_back(traced_call(2, entered, 43'900'000));
    if (r != 1) {
      trace::TracedCall& waited = rank.calls.back();
      waited.waits = 1;
      waited.first_wait_ns = 100'000;
      waited.longest_wait_ns = 40'000'000;
      waited.longest_wait_for = 1;
      rank.calls.push_back(traced_call(3, 50'000'000, -1));
      rank.waits_for = 1;
    }
    rank.entered = rank.calls.back().sequence;
  }
  return traces;
}

}  // namespace rondo::test
