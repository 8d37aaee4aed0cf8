// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/sim_multicast.h"

#include <algorithm>
#include <vector>

#include "kernels/primitives.h"
#include "kernels/sim/simulate.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {
namespace {

// The barrier of the CTAs of one number, step after step.
struct Meeting {
  int come = 0;
  double last_ns = 0;
  std::vector<VirtualTime::Task> waiting;
};

class MulticastRun {
 public:
  // Simulates the first `max_rounds` rounds of every CTA.
  MulticastRun(const Machine& machine, const SimMulticastCall& call, std::uint64_t max_rounds)
      : call_(call),
        max_rounds_(max_rounds),
        time_(static_cast<std::size_t>(call.ranks) * static_cast<std::size_t>(call.ctas)),
        traffic_(machine),
        meetings_(static_cast<std::size_t>(call.ctas)) {
    for (int r = 0; r < call.ranks; ++r) {
      const int other = (r + 1) % call.ranks;
      up_.push_back(machine.routes(r, other, 0).wires.front());
      down_.push_back(machine.routes(other, r, 0).wires.back());
    }
  }

  Result<SimResult> run() {
    for (int cta = 0; cta < call_.ctas; ++cta)
      for (int rank = 0; rank < call_.ranks; ++rank)
        if (time_.spawn([this, cta, rank] { run_cta(rank, cta); }) == VirtualTime::kNone)
          return fail(StatusCode::kInternalError, "not enough memory for the simulator's tasks");
    if (!time_.run())
      return fail(StatusCode::kInternalError, "CTAs of {} ranks wait for each other", call_.ranks);
    return result_of(time_.end_ns(), traffic_);
  }

 private:
  struct Cta {
    int rank, number;
    Rounds rounds;
    std::uint64_t rounds_run;
  };

  void run_cta(int rank, int number) {
    const Slice part = part_of({0, call_.count}, number, call_.ctas, call_.grain);
    const Rounds rounds{part.count, call_.per_round, call_.grain};
    const Cta cta{rank, number, rounds, std::min(rounds.size(), max_rounds_)};
    if (part.count == 0) return;
    switch (call_.collective) {
      case Collective::kAllReduce:
        return all_reduce(cta);
      case Collective::kReduceScatter:
        return reduce_scatter(cta);
      default:
        return all_gather(cta);
    }
  }

  void all_reduce(const Cta& cta) {
    move_own(bytes_of(cta, 0), 1);
    for (std::uint64_t k = 0; k <= cta.rounds_run; ++k) {
      meet(cta.number);
      const double share = bytes_of(cta, k) / call_.ranks;
      const double end = std::max(pull(cta.rank, share), push(cta.rank, share));
      time_.advance_to(time_.now_ns() + batches(share) * call_.cost.sum_ns);
      move_own(bytes_of(cta, k + 1), 1);
      if (k > 0) move_own(bytes_of(cta, k - 1), 1);
      time_.advance_to(end);
    }
  }
  void reduce_scatter(const Cta& cta) {
    move_own(bytes_of(cta, 0), call_.ranks);
    for (std::uint64_t k = 0; k < cta.rounds_run; ++k) {
      meet(cta.number);
      const double end = pull(cta.rank, bytes_of(cta, k));
      time_.advance_to(time_.now_ns() + batches(bytes_of(cta, k)) * call_.cost.sum_ns);
      move_own(bytes_of(cta, k + 1), call_.ranks);
      time_.advance_to(end);
    }
    meet(cta.number);
  }
  void all_gather(const Cta& cta) {
    meet(cta.number);
    time_.advance_to(give(cta, 0));
    for (std::uint64_t k = 0; k < cta.rounds_run; ++k) {
      meet(cta.number);
      const double end = give(cta, k + 1);
      move_own(bytes_of(cta, k), call_.ranks);
      time_.advance_to(end);
    }
  }

  // Bytes of a block in round k; 0 after the last simulated round.
  double bytes_of(const Cta& cta, std::uint64_t k) const {
    if (k >= cta.rounds_run) return 0;
    return static_cast<double>(cta.rounds[k].count * call_.element_bytes);
  }
  double batches(double bytes) const {
    const std::uint64_t of_batch = call_.cost.batch_bytes;
    const std::uint64_t count = (static_cast<std::uint64_t>(bytes) + of_batch - 1) / of_batch;
    return static_cast<double>(count);
  }
  // Moves `blocks` blocks into staging or out of it.
  void move_own(double bytes, int blocks) {
    time_.advance_to(time_.now_ns() + blocks * batches(bytes) * call_.cost.load_ns);
  }
  // Sends a rank's own block to all. Returns when the wires have finished.
  double give(const Cta& cta, std::uint64_t k) {
    const double end = push(cta.rank, bytes_of(cta, k));
    move_own(bytes_of(cta, k), 1);
    return end;
  }

  // pull: what the switch sums for a rank. push: what it copies to all.
  double pull(int rank, double bytes) {
    if (bytes == 0) return time_.now_ns();
    time_.settle();
    double end = 0;
    for (const int wire : up_) end = std::max(end, send(wire, bytes));
    return std::max(end, send(down_[static_cast<std::size_t>(rank)], bytes));
  }
  double push(int rank, double bytes) {
    if (bytes == 0) return time_.now_ns();
    time_.settle();
    double end = send(up_[static_cast<std::size_t>(rank)], bytes);
    for (const int wire : down_) end = std::max(end, send(wire, bytes));
    return end;
  }
  double send(int wire, double bytes) {
    const int wires[] = {wire};
    return traffic_.send(wires, bytes * call_.cost.wire_bytes, time_.now_ns());
  }

  void meet(int number) {
    Meeting& meeting = meetings_[static_cast<std::size_t>(number)];
    time_.settle();
    meeting.last_ns = std::max(meeting.last_ns, time_.now_ns());
    if (++meeting.come < call_.ranks) {
      meeting.waiting.push_back(time_.self());
      return time_.park();
    }
    const double all_ns = meeting.last_ns + call_.cost.barrier_ns;
    for (const VirtualTime::Task task : meeting.waiting) time_.wake(task, all_ns);
    meeting = {};
    time_.advance_to(all_ns);
  }

  const SimMulticastCall& call_;
  const std::uint64_t max_rounds_;
  VirtualTime time_;
  Traffic traffic_;
  std::vector<Meeting> meetings_;
  std::vector<int> up_, down_;
};

}  // namespace

Result<SimResult> simulate_multicast(const Machine& machine, const SimMulticastCall& call,
                                     const SimLimits& limits) {
  const bool known = call.collective == Collective::kAllReduce ||
                     call.collective == Collective::kReduceScatter ||
                     call.collective == Collective::kAllGather;
  if (!known || call.ranks < 2 || call.ctas < 1 || call.per_round == 0)
    return fail(StatusCode::kInvalidArgument,
                "no switch does {} of {} ranks by {} CTAs, {} elements a round",
                name(call.collective), call.ranks, call.ctas, call.per_round);
  const std::uint64_t longest = part_of({0, call.count}, 0, call.ctas, call.grain).count;
  const std::uint64_t all = Rounds{longest, call.per_round, call.grain}.size();
  const auto simulated = [&](std::uint64_t rounds) {
    return MulticastRun(machine, call, rounds).run();
  };
  if (limits.rounds > 0) return simulated(limits.rounds);
  return simulate_until_even(static_cast<double>(all), {}, simulated,
                             [&] { return simulated(all); });
}

}  // namespace rondo::sim
