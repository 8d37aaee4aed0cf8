// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/simulate_host.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "kernels/algorithms/run_algorithm.h"
#include "kernels/sim/sim_host_memory.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {
namespace {

struct HostAlgorithm {
  SimHostMemory& memory;
  int root;
  const Rounds& rounds;

  static constexpr bool runs(const AlgorithmRow& row) { return row.verbs == Verbs::kPeerMemory; }
};

// Number of calls to simulate. Calls before and after the counted ones give the state of a long
// series.
struct Calls {
  int before, counted, after;

  int all() const { return before + counted + after; }
};
Calls calls_of(const SimHostCall& call, std::uint64_t rounds) {
  // With lines or parts of slots, a root runs ahead by up to as many calls as there are
  // announcements.
  constexpr int kAhead = kAnnounceDepth - 1;
  const bool rooted = is_rooted(call.collective);
  if (rooted && (call.place == HostPath::kLines || call.slot_parts > 1))
    return {kAhead, 2 * kAhead, kAhead};
  // Slots (and roots, if in turn) rotate, so `turns` calls are one period. With many rounds this
  // hardly matters, so fewer calls are simulated.
  constexpr std::uint64_t kMany = 16;
  const int turns = kStagingSlots * (call.roots_in_turn ? call.ranks : 1);
  const int after = rooted ? kStagingSlots : 1;
  return rounds < kMany ? Calls{2 * turns, 4 * turns, after} : Calls{turns, turns, after};
}

std::uint64_t host_rounds(const SimHostCall& call) {
  return call.rounds.per_round == 0 ? 0 : call.rounds.size();
}

// By call: when the last rank ended it.
Result<std::vector<double>> run_calls(const SimHostCall& call, const AlgorithmRow& row,
                                      const Rounds& rounds, int calls) {
  VirtualTime time(static_cast<std::size_t>(call.ranks));
  SimCores cores(time, call.cores, call.cost.yield);
  HostSteps shared{call, row, time, cores,
                   std::vector<HostSteps::Rank>(static_cast<std::size_t>(call.ranks))};
  std::vector<double> ended_ns(static_cast<std::size_t>(calls));
  std::deque<SimHostMemory> memories;  // must live until the last event
  for (int rank = 0; rank < call.ranks; ++rank) {
    const auto text = [&, &memory = memories.emplace_back(shared, rank)] {
      for (int number = 0; number < calls; ++number) {
        const int root = call.roots_in_turn ? (call.root + number) % call.ranks : call.root;
        memory.begin(root);
        HostAlgorithm of_rank{memory, root, rounds};
        run_algorithm(of_rank, call.algorithm, call.collective);
        double& ended = ended_ns[static_cast<std::size_t>(number)];
        ended = std::max(ended, time.now_ns());
      }
      memory.leave();
    };
    if (time.spawn(text) == VirtualTime::kNone)
      return fail(StatusCode::kInternalError, "not enough memory for the simulator's tasks");
  }
  if (!time.run())
    return fail(StatusCode::kInternalError, "{} {} of {} ranks ends with ranks that still wait",
                name(call.algorithm), name(call.collective), call.ranks);
  return ended_ns;
}

Result<SimResult> simulate_row(const SimHostCall& call, const AlgorithmRow& row,
                               std::uint64_t left_out, int calls) {
  Rounds rounds = call.rounds;
  rounds.count -= left_out * rounds.per_round;
  const Calls in_a_row = calls > 0 ? Calls{0, calls, 0} : calls_of(call, host_rounds(call));
  RONDO_TRY(const std::vector<double> ended_ns, run_calls(call, row, rounds, in_a_row.all()));
  if (calls > 0) return SimResult{ended_ns.back()};
  const auto ended = [&](int calls_so_far) {
    return ended_ns[static_cast<std::size_t>(calls_so_far - 1)];
  };
  return SimResult{(ended(in_a_row.before + in_a_row.counted) - ended(in_a_row.before)) /
                   in_a_row.counted};
}

}  // namespace

Result<SimResult> simulate_host(const SimHostCall& call, const HostLimits& limits) {
  const AlgorithmRow* const row = find_row(call.algorithm, call.collective);
  if (row == nullptr || row->verbs != Verbs::kPeerMemory ||
      (call.place == HostPath::kLines && !row->fits_lines))
    return fail(StatusCode::kInvalidArgument, "{} cannot run {} over peers' memory{}",
                name(call.algorithm), name(call.collective),
                row != nullptr && row->verbs == Verbs::kPeerMemory ? " by lines" : "");
  if (call.ranks < 2 || call.cores < 1)
    return fail(StatusCode::kInvalidArgument,
                "{} ranks on {} cores have nothing to simulate: at least 2 ranks on 1 core",
                call.ranks, call.cores);
  if (call.root < 0 || call.root >= call.ranks)
    return fail(StatusCode::kInvalidArgument, "root {} is not one of {} ranks", call.root,
                call.ranks);
  const std::uint64_t all = host_rounds(call);
  const auto simulate_rounds = [&](std::uint64_t rounds) {
    return simulate_row(call, *row, all - rounds, limits.calls);
  };
  if (limits.rounds > 0) return simulate_rounds(std::min(limits.rounds, all));
  // A root runs some rounds ahead of its readers, so few rounds are uneven.
  const Evenness even{.minimum = is_rooted(call.collective) ? 64U : 8U};
  return simulate_until_even(static_cast<double>(all), even, simulate_rounds,
                             [&] { return simulate_rounds(all); });
}

}  // namespace rondo::sim
