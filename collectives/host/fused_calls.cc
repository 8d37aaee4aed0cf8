// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/fused_calls.h"

#include <cassert>

#include "collectives/planner/planner.h"
#include "kernels/host/host_executor.h"

namespace rondo {
namespace {

std::uint64_t digest_of(std::span<const host::Segment> segments) {
  std::uint64_t state = segments.size();
  for (const host::Segment& segment : segments) {
    state = (state ^ segment.count) * 0x9e3779b97f4a7c15ULL;
    state ^= state >> 31;
  }
  return state >> 33;
}

}  // namespace

std::size_t FusedCalls::collect(std::span<const Call> calls) {
  segments_.clear();
  if (calls.size() < 2 || !is_fusable(facts_, calls[0].record)) return 1;
  std::uint64_t total = 0;
  std::size_t covered = 0;
  for (std::size_t i = 0; i < calls.size() && segments_.size() < kMaxGrouped; ++i) {
    const Call& call = calls[i];
    if (is_point_to_point(call) || is_one_sided(call)) continue;
    if (!may_join(calls[0].record, call.record) || !is_fusable(facts_, call.record)) break;
    segments_.push_back({static_cast<const std::byte*>(call.send),
                         static_cast<std::byte*>(call.receive), total, call.record.count});
    total += call.record.count;
    covered = i + 1;
  }
  covered_ = calls.first(covered);
  return segments_.size() > 1 ? covered : 1;
}

Status FusedCalls::run(const RunAlone& run_alone) {
  assert(segments_.size() > 1 && !covered_.empty() && "after collect()");
  CallRecord shape = covered_.front().record;
  const host::Segments joint(segments_, size_of(shape.type));
  shape.count = joint.total();
  CallRecord record = shape;
  record.count = fused_count(joint.total(), digest_of(segments_));
  const Plan* planned = plans_.find(record);
  if (planned == nullptr) {
    PlanFacts as_group = facts_;
    as_group.fused = true;
    const Result<Plan> made = make_plan(as_group, shape);
    if (!made.ok() || !made->in_memory()) {
      // NCCL_ALGO requests an algorithm along connections, or excludes all: the calls run one by
      // one.
      for (const Call& call : covered_)
        if (!is_point_to_point(call) && !is_one_sided(call)) RONDO_CHECK_OK(run_alone(call));
      return ok_status();
    }
    planned = &plans_.put(record, *made);
  }
  const Plan& plan = *planned;
  last_plan_ = {plan.algorithm, plan.protocol, plan.rounds.size()};
  host_.recorder.choose(plan.algorithm, plan.protocol);
  host::HostCall call;
  call.record = record;
  call.type = shape.type;
  call.op = shape.op;
  call.root = shape.root;
  call.segments = &joint;
  if (!context_.on_device) context_.count_calls(shape.collective, segments_.size());
  const auto run_joint = [&] {
    call_.record = call.record;
    Status result;
    if (!host::run_direct(host_, call, plan.algorithm, host::Carrier::kStaging, plan.rounds))
      result = faults_.why_it_ended();
    if (result.ok()) host_.finish_call();
    call_.record = CallRecord{};
    return result;
  };
  if (!verified_.is_on() || !verified_.is_next_due()) return run_joint();
  VerifiedCall whole;
  whole.record = call.record;
  whole.count = joint.total();
  whole.segments = &joint;
  return verified_.run(whole, run_joint);
}

}  // namespace rondo
