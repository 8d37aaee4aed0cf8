// SPDX-License-Identifier: Apache-2.0
#include "collectives/model/ordered_predictions.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/gpu/plan/ordered_cut.h"
#include "collectives/model/host_predictions.h"
#include "collectives/planner/leaf_layout.h"
#include "collectives/planner/tuning.h"
#include "kernels/host/leaf_tree.h"

namespace rondo::model {
namespace {

// Of the exchange over sockets in which ranks on GPUs tell each other their leaves. Assumed.
constexpr double kAgreeNs = 50'000;

Result<LeafLayout> even_layout(std::uint32_t leaves, int ranks) {
  const auto n = static_cast<std::uint32_t>(ranks);
  std::vector<LeafRun> runs;
  for (std::uint32_t r = 0, at = 0; r < n; ++r, at = runs.back().end())
    runs.push_back({at, leaves / n + (r < leaves % n ? 1 : 0)});
  LeafLayout layout;
  RONDO_CHECK_OK(layout.set(runs, leaves));
  return layout;
}

CallRecord bytes_of(Collective which, std::uint64_t bytes) {
  return {bytes, which, DataType::kUint8, RedOp::kSum, 0, is_rooted(which) ? 0 : -1};
}

// The steps of a call between GPUs.
class GpuSteps {
 public:
  explicit GpuSteps(const GpuCluster& cluster) : cluster_(cluster) {}

  // A launch of FoldLeaves, which reads and writes so much; the first one waits for the host.
  void fold(std::uint64_t bytes) {
    const gpu::DeviceCosts& costs = gpu::kDevicePriors;
    ns_ += costs.of(ns_ == 0 ? gpu::DeviceRate::kLaunch : gpu::DeviceRate::kNextLaunch);
    ns_ += static_cast<double>(bytes) * costs.of(gpu::DeviceRate::kMemory);
  }
  // Between each two ranks, or from each to the root.
  Status exchange(Collective which, std::uint64_t bytes) {
    if (bytes == 0) return ok_status();
    RONDO_TRY(const sim::SimResult done, time_messages(cluster_, bytes_of(which, bytes)));
    ns_ += done.ns;
    if (done.extrapolated) by_ = Prediction::By::kExtrapolation;
    return ok_status();
  }
  Prediction of_pieces(double pieces) const {
    return {(kAgreeNs + ns_ * pieces) / 1000, by_, {}, 0};
  }

 private:
  const GpuCluster& cluster_;
  double ns_ = 0;
  Prediction::By by_ = Prediction::By::kSimulation;
};

// The steps of a call in host memory.
class HostSteps {
 public:
  HostSteps(const PlanFacts& facts, int cores) : facts_(facts), cores_(cores) {
    facts_.reproducible = true;
    facts_.algorithms = {};
    facts_.protocols = {};
  }

  void move(HostRate rate, std::uint64_t bytes) {
    ns_ += static_cast<double>(bytes) * facts_.costs.of(rate) * facts_.core_share;
  }
  Status run(const CallRecord& step) {
    for (const HostWay& way : host_ways(facts_, step)) {
      if (!way.chosen) continue;
      RONDO_TRY(const Prediction done, predict_host(facts_, cores_, step, way));
      ns_ += done.us * 1000;
      if (done.by != Prediction::By::kSimulation) by_ = done.by;
      return ok_status();
    }
    return fail(StatusCode::kInternalError, "no plan for {}", to_string(step));
  }
  Prediction all() const { return {ns_ / 1000, by_, {}, 0}; }

 private:
  PlanFacts facts_;
  int cores_;
  double ns_ = 0;
  Prediction::By by_ = Prediction::By::kSimulation;
};

}  // namespace

Result<CallRecord> ordered(const CallRecord& plain, std::uint32_t leaves) {
  CallRecord record = plain;
  record.collective = Collective::kNone;
  for (const Collective which : {Collective::kAllReduceOrdered, Collective::kReduceOrdered,
                                 Collective::kReduceScatterOrdered})
    if (plain_of(which) == plain.collective) record.collective = which;
  if (record.collective == Collective::kNone)
    return fail(StatusCode::kInvalidArgument,
                "leaves are for all_reduce, reduce and reduce_scatter, not for {}",
                rondo::name(plain.collective));
  constexpr std::uint32_t kMaximum = 1u << CallRecord::kMaxLeavesLog2;
  if (!std::has_single_bit(leaves) || leaves > kMaximum)
    return fail(StatusCode::kInvalidArgument, "{} leaves: give a power of two, {} at most", leaves,
                kMaximum);
  record.set_leaves(std::countr_zero(leaves),
                    size_of(plain.type) < sizeof(float) ? Rounding::kOnce : Rounding::kNode);
  return record;
}

Result<Prediction> predict_ordered(const GpuCluster& cluster, const CallRecord& record) {
  const int ranks = cluster.ranks();
  RONDO_TRY(const LeafLayout layout, even_layout(record.leaves(), ranks));
  if (cluster.hosts() == 1 &&
      (layout.is_plain(record) || layout.rest_is_plain(record))) {  // as TeamLaunches
    gpu::DevicePlanFacts facts = facts_of(cluster);
    facts.reproducible = true;
    const CallRecord plain = plain_call(record);
    if (const auto plan = gpu::make_device_plan(facts, plain);
        plan.ok() && gpu::sums_as_plain(*plan, plain, ranks)) {
      RONDO_TRY(Prediction made, predict(cluster, plain, {"ordered", *plan, true}));
      GpuSteps before(cluster);
      const std::uint64_t leaves = layout.run_of(0).n;
      if (leaves > 1) before.fold((leaves + 1) * record.count * size_of(record.type));
      made.us += before.of_pieces(1).us;
      return made;
    }
  }
  RONDO_TRY(const gpu::OrderedCut cut, gpu::OrderedCut::make(record, layout, ranks, 0));
  const double pieces = static_cast<double>(record.count) / static_cast<double>(cut.piece);
  // Rank 0 has the longest run.
  const std::uint64_t leaf = cut.piece * cut.parts();
  const std::uint64_t own = layout.max_subtrees() * leaf * cut.sum();
  const std::uint64_t slice = cut.slice_elements(cut.piece);
  GpuSteps steps(cluster);
  steps.fold(layout.run_of(0).n * leaf * cut.element() + own);
  RONDO_CHECK_OK(steps.exchange(Collective::kAllToAll, layout.max_subtrees() * slice * cut.sum()));
  steps.fold(layout.all_subtrees() * slice * cut.sum() + slice * cut.element());
  const bool ends = cut.scatters || cut.whole;
  const Collective back = record.root < 0 ? Collective::kAllToAll : Collective::kGather;
  RONDO_CHECK_OK(steps.exchange(back, ends ? 0 : slice * cut.element()));
  return steps.of_pieces(pieces);
}

// As OrderedCalls: at once, along the ranks, gathered, or by owners.
Result<Prediction> predict_ordered(const PlanFacts& facts, int cores, const CallRecord& record) {
  RONDO_TRY(const LeafLayout layout, even_layout(record.leaves(), facts.ranks));
  const auto ranks = static_cast<std::uint64_t>(facts.ranks);
  const DataType partial = host::partial_type(record.type, record.rounding());
  const Collective plain = plain_of(record.collective);
  const std::uint64_t sum = size_of(partial), leaf = size_of(record.type);
  const std::uint64_t elements =
      record.count * (plain == Collective::kReduceScatter ? ranks : std::uint64_t{1});
  const std::uint64_t own = layout.max_subtrees() * elements * sum;
  const bool at_once = layout.max_subtrees() == 1 && own * ranks <= tuning::kOrderedAtOnce;
  HostSteps steps(facts, cores);
  if (layout.run_of(0).n > 1) steps.move(HostRate::kSum, layout.run_of(0).n * elements * leaf);
  const std::uint64_t run = sizeof(LeafRun);
  RONDO_CHECK_OK(steps.run(bytes_of(Collective::kAllGather, at_once ? own + run : run)));
  if (at_once || (!layout.along_ranks() && own <= tuning::kOrderedGathered)) {
    if (!at_once) RONDO_CHECK_OK(steps.run(bytes_of(Collective::kAllGather, own)));
    steps.move(HostRate::kSum, layout.all_subtrees() * record.count * sum);
  } else if (layout.along_ranks()) {
    CallRecord step = record;
    step.collective = plain;
    step.excluded = 0;
    step.type = partial;
    RONDO_CHECK_OK(steps.run(step));
  } else {
    const std::uint64_t slice = (elements + ranks - 1) / ranks;
    RONDO_CHECK_OK(steps.run(bytes_of(Collective::kAllToAll, layout.max_subtrees() * slice * sum)));
    steps.move(HostRate::kSum, layout.all_subtrees() * slice * sum);
    if (plain != Collective::kReduceScatter)
      RONDO_CHECK_OK(steps.run(bytes_of(Collective::kAllGather, slice * leaf)));
  }
  if (partial != record.type) steps.move(HostRate::kCopy, elements * sum);
  return steps.all();
}

}  // namespace rondo::model
