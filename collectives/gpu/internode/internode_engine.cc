// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/internode/internode_engine.h"

#include <utility>

#include "collectives/planner/device_strategies.h"
#include "collectives/planner/device_work.h"

namespace rondo::gpu {

InternodeEngine::InternodeEngine(RankState& state, std::shared_ptr<HostProxy> host,
                                 std::unique_ptr<InternodeKernels> kernels)
    : state_(state),
      rank_(state.members.rank),
      host_(std::move(host)),
      kernels_(std::move(kernels)),
      newest_(rank_ == 0),
      run_(1, state.members.size) {}

InternodeEngine::~InternodeEngine() {
  if (state_.forked())
    (void)kernels_.release();  // its connections also belong to the parent
  else
    host_->close();
}

Status InternodeEngine::start() {
  InternodeKernels* const kernels = kernels_.get();
  return host_->start({kernels, [kernels] { return kernels->kernel_progress(); },
                       [kernels] { return kernels->message_wait(); },
                       [kernels](int* peer) { return kernels->first_end(peer); }});
}

GpuMemoryUse InternodeEngine::memory() const {
  GpuMemoryUse use = kernels_->memory();
  use.pinned += host_->memory().pinned;
  return use;
}

void InternodeEngine::end() {
  kernels_->end();
  host_->end();
}

template <class Launch>
Status InternodeEngine::launch_in_order(std::span<const GpuStream> streams,
                                        const GpuCaptureInfo& capture, const Launch& launch) {
  if (capturing(capture)) host_->expect_replays();
  const StreamOrder::Turn turn(host_->order(), capture);
  return host_->order().serve(streams, capture, launch);
}

double InternodeEngine::predicted_ns(const CallRecord& record) const {
  if (const auto plan = kernels_->plan(record))
    return device_ns(kernels_->plan_facts(), record, *plan);
  return host_->predicted_ns(record);
}

Status InternodeEngine::post(std::span<const Call> calls, Mismatch* mismatch) {
  bool messages = false;
  Status collectives;
  for (const Call& call : calls) {
    messages |= is_point_to_point(call);
    if (collectives.ok() && !is_point_to_point(call)) collectives = post_collective(call);
  }
  // Also after an error of a later call: other ranks may have begun these.
  const Status flushed = flush();
  RONDO_CHECK_OK(collectives);
  RONDO_CHECK_OK(flushed);
  return messages ? launch_messages(calls, mismatch) : ok_status();
}

Status InternodeEngine::post_collective(const Call& call) {
  const auto plan = kernels_->plan(call.record, &newest_);
  if (plan && row_of(*plan).traits.runner == Runner::kEveryDevice)
    return post_by_kernels(call, *plan);
  RONDO_CHECK_OK(flush());
  RONDO_TRY(const GpuCaptureInfo capture, capture_of(call.stream));
  RONDO_CHECK_OK(announce(call, capture));
  if (!plan) return host_->post_collective(call);
  return launch_in_order({&call.stream, 1}, capture,
                         [&] { return kernels_->launch_messages_of(call); });
}

Status InternodeEngine::announce(const Call& call, const GpuCaptureInfo& capture) {
  return capturing(capture) ? ok_status() : host_->status()->announce(call.record);
}

// Announced before it is launched: no other rank waits for the launch before its own announcement.
Status InternodeEngine::post_by_kernels(const Call& call, const DevicePlan& plan) {
  PlannedCall planned = kernels_->planned(plan, call, run_.spare_buffers());
  if (!run_.takes(next_joint(call), planned)) RONDO_CHECK_OK(flush());
  JointCall& joint = next_joint(call);
  GpuCaptureInfo& capture = joint.posted[0].capture;
  if (run_.empty()) {
    RONDO_TRY(capture, capture_of(call.stream));
  } else {
    capture = run_.first().posted[0].capture;
  }
  RONDO_CHECK_OK(announce(call, capture));
  run_.add(joint, std::move(planned));
  ++joined_;
  return ok_status();
}

// The run's next call, in memory of a finished one if there is any.
JointCall& InternodeEngine::next_joint(const Call& call) {
  if (joined_ == joint_.size()) joint_.push_back({std::vector<PostedCall>(1), {true}, 1});
  JointCall& next = joint_[joined_];
  next.posted[0] = {call, nullptr, {}};
  return next;
}

Status InternodeEngine::flush() {
  if (run_.empty()) return ok_status();
  const PostedCall& first = run_.first().posted[0];
  Status launched = launch_in_order({&first.call.stream, 1}, first.capture, [&] {
    return kernels_->launch(run_.calls(), first.call.stream, capturing(first.capture));
  });
  run_.clear();
  joined_ = 0;
  return launched;
}

Status InternodeEngine::launch_messages(std::span<const Call> calls, Mismatch* mismatch) {
  std::vector<GpuStream> streams;
  for (const Call& call : calls)
    if (is_point_to_point(call)) streams.push_back(call.stream);
  RONDO_TRY(const std::vector<ProcessMessage> messages, messages_of_group(rank_, calls, mismatch));
  RONDO_TRY(const GpuCaptureInfo capture, capture_of(streams.front()));
  const auto launch = [&]() -> Status {
    for (const ProcessMessage& message : messages)
      if (!message.is_within())
        host_->status()->notes().announce(message.from, message.to, message.record,
                                          capturing(capture));
    return kernels_->launch(messages, streams.front(), &mismatch->peer);
  };
  return launch_in_order(streams, capture, launch);
}

}  // namespace rondo::gpu
