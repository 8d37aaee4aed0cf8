// SPDX-License-Identifier: Apache-2.0
// InternodeEngine: runs the calls of a rank on a GPU, in a communicator of several hosts, whose
// ranks all have kernels between hosts.
//
// Collectives that have rings, and messages, run as kernels (internode_kernels.h), those of a group
// in one launch if possible (call_run.h). The rank's HostProxy does all other calls, in one order
// with these. Guarantees and cost: those of the two.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "collectives/gpu/calls/call_run.h"
#include "collectives/gpu/calls/gpu_engine.h"
#include "collectives/gpu/calls/posted_calls.h"
#include "collectives/gpu/internode/internode_kernels.h"
#include "collectives/gpu/staging/host_proxy.h"
#include "collectives/host/rank_state.h"

namespace rondo::gpu {

class InternodeEngine final : public GpuEngine {
 public:
  // host: not yet started.
  InternodeEngine(RankState& state, std::shared_ptr<HostProxy> host,
                  std::unique_ptr<InternodeKernels> kernels);
  ~InternodeEngine() override;  // ends the proxy's thread, which drives the kernels' connections
  InternodeEngine(const InternodeEngine&) = delete;
  InternodeEngine& operator=(const InternodeEngine&) = delete;
  Status start();

  double predicted_ns(const CallRecord& record) const override;
  const DevicePlanFacts* plan_facts() const override { return &kernels_->plan_facts(); }
  void set_tuned(const std::shared_ptr<const TunedWays>& ways) override {
    kernels_->set_tuned(ways);
  }
  Status post(std::span<const Call> calls, Mismatch* mismatch) override;
  bool kernel_gave_up(std::optional<Fault>*) const override { return kernels_->gave_up(); }
  void end() override;
  GpuMemoryUse memory() const override;

 private:
  Status post_collective(const Call& call);
  Status post_by_kernels(const Call& call, const DevicePlan& plan);
  JointCall& next_joint(const Call& call);
  // Launches the run of collectives, if there is one.
  Status flush();
  Status announce(const Call& call, const GpuCaptureInfo& capture);
  Status launch_messages(std::span<const Call> calls, Mismatch* mismatch);
  // launch(), with what keeps the rank's kernels in order.
  template <class Launch>
  Status launch_in_order(std::span<const GpuStream> streams, const GpuCaptureInfo& capture,
                         const Launch& launch);

  RankState& state_;
  const int rank_;
  const std::shared_ptr<HostProxy> host_;
  std::unique_ptr<InternodeKernels> kernels_;
  NewestDevicePlan newest_;      // of kernels_
  CallRun run_;                  // collectives by kernels that are not launched yet
  std::deque<JointCall> joint_;  // their calls, and room for more
  std::size_t joined_ = 0;       // number of these that are in the run
};

}  // namespace rondo::gpu
