// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/simulate.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "kernels/algorithms/run_links.h"
#include "kernels/sim/sim_links.h"
#include "kernels/sim/sim_push.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {
namespace {

struct PushAlgorithm {
  SimPush& memory;
  int root;
  Rounds rounds;

  static constexpr bool runs(const AlgorithmRow& row) {
    return row.verbs == Verbs::kPeerMemory && row.runs(Where::kGpu);
  }
};

// The position of a rank in the stream; algorithms over Links run on positions.
int position_of(const SimStream& stream, int rank) {
  const auto at = std::find(stream.order.begin(), stream.order.end(), rank);
  return static_cast<int>(at - stream.order.begin());
}

// One run of the call with `left_out` rounds fewer; an incomplete last round is kept.
class Run {
 public:
  Run(const Machine& machine, const SimCall& call)
      : machine_(machine), call_(call), time_(tasks_of(call)), traffic_(machine) {}

  Result<SimResult> run(std::uint64_t left_out) {
    const bool started =
        find_row(call_.algorithm, call_.collective, Where::kGpu)->verbs == Verbs::kPeerMemory
            ? start_pushes(left_out)
            : start_links(left_out);
    if (!started)
      return fail(StatusCode::kInternalError, "not enough memory for the simulator's tasks");
    if (!time_.run() || !all_idle())
      return fail(StatusCode::kInternalError, "{} {} of {} ranks ends with ranks that still wait",
                  name(call_.algorithm), name(call_.collective), call_.ranks);
    return result_of(time_.end_ns(), traffic_);
  }

 private:
  static std::size_t tasks_of(const SimCall& call) {
    // Twice the ranks: algorithms with roles() spawn a second task.
    return 2 * call.streams.size() * static_cast<std::size_t>(call.ranks);
  }
  Rounds rounds_of(const SimStream& stream, std::uint64_t left_out) const {
    return {stream.count - left_out * stream.per_round, stream.per_round, call_.grain, 0,
            stream.tree};
  }

  bool start_links(std::uint64_t left_out) {
    for (const SimStream& one : call_.streams) {
      const int number = static_cast<int>(runs_.size());
      connections_.emplace_back(time_, traffic_, call_.slots);
      runs_.push_back({machine_, call_.cost, one, number, rounds_of(one, left_out),
                       call_.element_bytes, time_, connections_.back()});
      const int root = position_of(one, call_.root);
      for (int position = 0; position < call_.ranks; ++position) {
        const auto body = [this, &run = runs_.back(), position, root] {
          SimLinks links(run, position);
          simulate_links(links, root, run.rounds);
        };
        if (time_.spawn(body) == VirtualTime::kNone) return false;
      }
    }
    return true;
  }
  void simulate_links(SimLinks& links, int root, const Rounds& rounds) const {
    const RingView ring{links.rank(), links.size()};
    run_links<Where::kGpu>(links, ring, root, rounds, call_.algorithm, call_.collective);
  }

  bool start_pushes(std::uint64_t left_out) {
    const SimStream& stream = call_.streams.front();
    pushed_ = std::make_unique<PushedRounds>(machine_, time_, traffic_, call_.cost,
                                             call_.element_bytes, stream.ctas, call_.ranks);
    for (int rank = 0; rank < call_.ranks; ++rank) {
      const auto body = [this, rank, rounds = rounds_of(stream, left_out)] {
        SimPush memory(*pushed_, rank);
        PushAlgorithm text{memory, call_.root, rounds};
        run_algorithm(text, call_.algorithm, call_.collective);
      };
      if (time_.spawn(body) == VirtualTime::kNone) return false;
    }
    return true;
  }

  bool all_idle() const {
    return std::all_of(connections_.begin(), connections_.end(),
                       [](const SimConnections& one) { return one.all_idle(); });
  }

  const Machine& machine_;
  const SimCall& call_;
  VirtualTime time_;
  Traffic traffic_;
  std::deque<SimConnections> connections_;
  std::deque<StreamRun> runs_;
  std::unique_ptr<PushedRounds> pushed_;
};

std::uint64_t rounds_of(const SimStream& stream) {
  return Rounds{stream.count, stream.per_round, 1}.size();
}

Status check(const SimCall& call) {
  const AlgorithmRow* const row = find_row(call.algorithm, call.collective, Where::kGpu);
  if (row == nullptr)
    return fail(StatusCode::kInvalidArgument, "the simulator has no algorithm {} for {}",
                name(call.algorithm), name(call.collective));
  if (call.ranks < 2 || call.streams.empty())
    return fail(StatusCode::kInvalidArgument, "{} ranks and {} rings have nothing to simulate",
                call.ranks, call.streams.size());
  for (const SimStream& stream : call.streams)
    if (stream.order.size() != static_cast<std::size_t>(call.ranks) || stream.per_round == 0 ||
        (row->verbs == Verbs::kPrimitives && stream.slot_bytes == 0))
      return fail(StatusCode::kInvalidArgument,
                  "a ring of {} of {} ranks, {} elements a round, slots "
                  "of {} bytes",
                  stream.order.size(), call.ranks, stream.per_round, stream.slot_bytes);
  for (const SimStream& stream : call.streams)
    if (row->roots == Roots::kOfFewNeighbours && stream.tree == kBothTrees &&
        !rerooted_tree_takes(position_of(stream, call.root), call.ranks))
      return fail(StatusCode::kInvalidArgument,
                  "rank {} has three neighbours in a tree: both trees cannot reduce to it",
                  call.root);
  if (call.slots < row->min_slots || call.slots > SimConnection::kMaxSlots)
    return fail(StatusCode::kInvalidArgument, "{} slots of a connection: {} to {} can be simulated",
                call.slots, row->min_slots, SimConnection::kMaxSlots);
  return ok_status();
}

Result<SimResult> run(const Machine& machine, const SimCall& call, std::uint64_t left_out) {
  return Run(machine, call).run(left_out);
}

}  // namespace

SimResult result_of(double ns, const Traffic& traffic) {
  SimResult result{ns};
  result.busiest_wire = traffic.busiest();
  if (result.busiest_wire >= 0)
    result.busiest_share = traffic.busy_ns(result.busiest_wire) / result.ns;
  return result;
}

Result<SimResult> simulate(const Machine& machine, const SimCall& call, const SimLimits& limits) {
  if (const Status checked = check(call); !checked.ok()) return checked.error();
  std::uint64_t maximum = 0, minimum = ~std::uint64_t{0};
  for (const SimStream& stream : call.streams) {
    maximum = std::max(maximum, rounds_of(stream));
    minimum = std::min(minimum, rounds_of(stream));
  }
  // All streams leave out the same number of rounds, so the shortest stream limits it.
  const auto simulated = [&](std::uint64_t rounds) { return run(machine, call, minimum - rounds); };
  const std::uint64_t all = limits.rounds > 0 ? std::min(limits.rounds, minimum) : minimum;
  if (limits.rounds > 0) return simulated(all);
  return simulate_until_even(static_cast<double>(all), {}, simulated,
                             [&] { return simulated(all); });
}

}  // namespace rondo::sim
