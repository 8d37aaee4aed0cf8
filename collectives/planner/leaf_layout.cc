// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/leaf_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string>

#include "kernels/host/leaf_tree.h"

namespace rondo {
namespace {

std::string text_of(LeafRun run) {
  if (run.n == 0) return "no leaves";
  if (run.n == 1) return fmt::format("leaf {}", run.first);
  return fmt::format("leaves {} to {}", run.first, run.end() - 1);
}

}  // namespace

Collective plain_of(Collective which) {
  assert(is_ordered(which));
  switch (which) {
    case Collective::kReduceOrdered:
      return Collective::kReduce;
    case Collective::kReduceScatterOrdered:
      return Collective::kReduceScatter;
    default:
      return Collective::kAllReduce;
  }
}

CallRecord plain_call(const CallRecord& record) {
  if (!is_ordered(record.collective)) return record;
  return {record.count, plain_of(record.collective), record.type, record.op, 0, record.root};
}

bool LeafLayout::is_plain(const CallRecord& ordered) const {
  if (!along_ranks_ || leaves_ != runs_.size()) return false;
  const DataType type = ordered.type;
  if (!is_float(type) || size_of(type) >= sizeof(float))
    return host::partial_type(type, ordered.rounding()) == type;
  // Two leaves have one node.
  return ordered.rounding() == Rounding::kOnce || (leaves_ == 2 && ordered.op != RedOp::kAvg);
}

bool LeafLayout::rest_is_plain(const CallRecord& ordered) const {
  const DataType type = ordered.type;
  if (!along_ranks_ || ordered.collective != Collective::kAllReduceOrdered ||
      ordered.op == RedOp::kAvg || ordered.op == RedOp::kPreMulSum ||
      host::partial_type(type, ordered.rounding()) != type)
    return false;
  // Plain sums of narrow floats round at the end: of two ranks, that is at their one node.
  return !is_float(type) || size_of(type) >= sizeof(float) || runs_.size() == 2;
}

Status LeafLayout::check() const {
  std::uint64_t next = 0;
  int before = -1;
  for (const int rank : order_) {
    const LeafRun run = runs_[static_cast<std::size_t>(rank)];
    const std::uint64_t end = std::uint64_t{run.first} + run.n;
    if (end > leaves_)
      return fail(StatusCode::kInvalidUsage,
                  "rank {} gives leaves {} to {}, but there are {}: the last one is {}", rank,
                  run.first, end - 1, leaves_, leaves_ - 1);
    if (run.first < next)
      return fail(StatusCode::kInvalidUsage,
                  "leaf {} is given twice: rank {} has {}, rank {} has {}", run.first, before,
                  text_of(runs_[static_cast<std::size_t>(before)]), rank, text_of(run));
    if (run.first > next)
      return fail(
          StatusCode::kInvalidUsage,
          "no rank gives {}: rank {} begins with leaf {}{}; the ranks together must hold "
          "leaves 0 to {} once",
          text_of({static_cast<std::uint32_t>(next), run.first - static_cast<std::uint32_t>(next)}),
          rank, run.first,
          before < 0 ? std::string()
                     : fmt::format(", rank {} has {}", before,
                                   text_of(runs_[static_cast<std::size_t>(before)])),
          leaves_ - 1);
    next = end;
    before = rank;
  }
  if (next == leaves_) return ok_status();
  return fail(
      StatusCode::kInvalidUsage,
      "no rank gives {}: {}; the ranks together must hold leaves 0 to {} once",
      text_of({static_cast<std::uint32_t>(next), leaves_ - static_cast<std::uint32_t>(next)}),
      before < 0 ? std::string("all have none")
                 : fmt::format("the last ones are rank {}'s, {}", before,
                               text_of(runs_[static_cast<std::size_t>(before)])),
      leaves_ - 1);
}

Status LeafLayout::set(std::span<const LeafRun> runs, std::uint32_t leaves) {
  if (valid_ && leaves == leaves_ &&
      std::equal(runs.begin(), runs.end(), runs_.begin(), runs_.end()))
    return ok_status();
  assert(!runs.empty() && "a run for each rank, also for those without leaves");
  valid_ = false;
  runs_.assign(runs.begin(), runs.end());
  leaves_ = leaves;
  order_.clear();
  for (std::size_t r = 0; r < runs_.size(); ++r)
    if (runs_[r].n > 0) order_.push_back(static_cast<int>(r));
  std::sort(order_.begin(), order_.end(), [&](int a, int b) {
    return runs_[static_cast<std::size_t>(a)].first < runs_[static_cast<std::size_t>(b)].first;
  });
  RONDO_CHECK_OK(check());
  subtrees_.clear();
  first_.assign(1, 0);
  max_subtrees_ = 0;
  along_ranks_ = true;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const std::vector<LeafRun> own = host::subtrees_of(runs_[r]);
    subtrees_.insert(subtrees_.end(), own.begin(), own.end());
    first_.push_back(subtrees_.size());
    max_subtrees_ = std::max(max_subtrees_, own.size());
    along_ranks_ &=
        own.size() == 1 && runs_[r].n * runs_.size() == leaves_ && runs_[r].first == r * runs_[r].n;
  }
  valid_ = true;
  return ok_status();
}

}  // namespace rondo
