// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/sim_barriers.h"

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

namespace {

// Blocks that move between a rank's own buffers and its staging, and the work between the barriers.
struct Part {
  double in = 0, out = 0;         // blocks
  double summed = 0, copied = 0;  // blocks summed from two operands; copied
};

// Blocks that a rank reads from another rank's staging, and blocks that it stores there.
struct Moved {
  double read = 0, stored = 0;
};

class StagedRun {
 public:
  StagedRun(const Machine& machine, const SimStagedCall& call)
      : machine_(machine),
        call_(call),
        ranks_(call.ranks),
        traffic_(machine),
        at_ns_(static_cast<std::size_t>(call.ranks)) {}

  SimResult run() {
    const std::uint64_t piece = call_.piece == 0 ? call_.count : call_.piece;
    std::uint64_t begin = 0;
    do {
      run_piece(std::min(piece, call_.count - begin));
      begin += piece;
    } while (begin < call_.count);
    return result_of(*std::max_element(at_ns_.begin(), at_ns_.end()), traffic_);
  }

 private:
  void run_piece(std::uint64_t count) {
    block_bytes_ = static_cast<double>(count * call_.element_bytes);
    for (int r = 0; r < call_.ranks; ++r) at(r) += work_ns(part_of(r).in, call_.cost.copy_gbs);
    meet();
    share_work();
    meet();
    for (int r = 0; r < call_.ranks; ++r) at(r) += work_ns(part_of(r).out, call_.cost.copy_gbs);
  }

  double& at(int rank) { return at_ns_[static_cast<std::size_t>(rank)]; }

  Part part_of(int rank) const {
    const bool is_root = rank == call_.root;
    const double others = ranks_ - 1;
    switch (call_.collective) {
      case Collective::kAllReduce:
        return {.in = 1, .out = 1, .summed = others / ranks_, .copied = others / ranks_};
      case Collective::kReduce:
        return {.in = 1, .out = is_root ? 1.0 : 0, .summed = others / ranks_};
      case Collective::kReduceScatter:
        return {.in = ranks_, .out = 1, .summed = others};
      case Collective::kBroadcast:
        return {.in = is_root ? 1.0 : 0, .out = 1, .copied = others / ranks_};
      case Collective::kAllGather:
        return {.in = 1, .copied = ranks_};
      case Collective::kAllToAll:
        return {.in = ranks_, .copied = ranks_};
      case Collective::kGather:
        return {.in = is_root ? 0.0 : 1, .copied = is_root ? ranks_ : 0};
      default:
        return {.in = is_root ? ranks_ : 0, .copied = 1};
    }
  }

  Moved moved(int rank, int peer) const {
    const double share = 1 / ranks_;
    switch (call_.collective) {
      case Collective::kAllReduce:
        return {share, share};
      case Collective::kReduce:
        return {share, peer == call_.root ? share : 0};
      case Collective::kBroadcast:
        return peer == call_.root ? Moved{share, 0} : Moved{0, share};
      case Collective::kGather:
        return {rank == call_.root ? 1.0 : 0, 0};
      case Collective::kScatter:
        return {peer == call_.root ? 1.0 : 0, 0};
      default:
        return {1, 0};
    }
  }

  // A barrier: each rank waits until it has seen all others arrive.
  void meet() {
    const std::vector<double> came = at_ns_;
    for (int r = 0; r < call_.ranks; ++r)
      for (int peer = 0; peer < call_.ranks; ++peer)
        if (peer != r)
          at(r) = std::max(
              at(r), came[static_cast<std::size_t>(peer)] + machine_.routes(peer, r, 0).latency_ns);
  }

  // Every rank starts with its next rank, so that no wire serves all of them at once.
  void share_work() {
    std::vector<double> ends = at_ns_;
    for (int k = 1; k < call_.ranks; ++k)
      for (int r = 0; r < call_.ranks; ++r) {
        const int peer = (r + k) % call_.ranks;
        const Moved blocks = moved(r, peer);
        double& end = ends[static_cast<std::size_t>(r)];
        end =
            std::max({end, send(peer, r, blocks.read, at(r)), send(r, peer, blocks.stored, at(r))});
      }
    for (int r = 0; r < call_.ranks; ++r) {
      const Part part = part_of(r);
      at(r) += work_ns(part.summed, call_.cost.sum_gbs) + work_ns(part.copied, call_.cost.copy_gbs);
      at(r) = std::max(at(r), ends[static_cast<std::size_t>(r)]);
    }
  }

  double send(int from, int to, double blocks, double at_ns) {
    if (blocks == 0 || block_bytes_ == 0) return at_ns;
    return traffic_.send(machine_.routes(from, to, 0).wires,
                         blocks * block_bytes_ * call_.cost.wire_bytes, at_ns);
  }

  double work_ns(double blocks, double cta_gbs) const {
    if (blocks == 0 || block_bytes_ == 0) return 0;
    const double gbs = cta_gbs * call_.ctas;
    return call_.cost.fixed_ns + (gbs > 0 ? blocks * block_bytes_ / gbs : 0);
  }

  const Machine& machine_;
  const SimStagedCall& call_;
  const double ranks_;
  Traffic traffic_;
  double block_bytes_ = 0;     // of the piece
  std::vector<double> at_ns_;  // by rank
};

}  // namespace

Result<SimResult> simulate_staged(const Machine& machine, const SimStagedCall& call) {
  const bool known =
      call.collective >= Collective::kAllReduce && call.collective <= Collective::kScatter;
  if (!known || call.ranks < 2 || call.ctas < 1)
    return fail(StatusCode::kInvalidArgument, "no staged kernel does {} of {} ranks by {} CTAs",
                name(call.collective), call.ranks, call.ctas);
  return StagedRun(machine, call).run();
}

}  // namespace rondo::sim
