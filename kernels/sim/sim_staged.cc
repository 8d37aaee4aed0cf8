// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/sim_staged.h"

#include <algorithm>
#include <vector>

namespace rondo::sim {
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
        block_bytes_(static_cast<double>(call.count * call.element_bytes)),
        traffic_(machine),
        at_ns_(static_cast<std::size_t>(call.ranks)) {}

  SimResult run() {
    for (int r = 0; r < call_.ranks; ++r) at(r) += work_ns(part_of(r).in, call_.cost.copy_gbs);
    meet();
    share_work();
    meet();
    for (int r = 0; r < call_.ranks; ++r) at(r) += work_ns(part_of(r).out, call_.cost.copy_gbs);
    return result_of(*std::max_element(at_ns_.begin(), at_ns_.end()), traffic_);
  }

 private:
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
  const double ranks_, block_bytes_;
  Traffic traffic_;
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
