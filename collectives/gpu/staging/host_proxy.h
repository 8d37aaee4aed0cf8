// HostProxy: a rank on a GPU in a communicator that spans several hosts, or whose processes share
// GPUs and cannot reach each other. Its calls pass through pinned memory: the stream copies a
// step's input there, a thread runs the step with the rank's own host engine (shared memory within
// a host, TCP between hosts), and the stream copies the output back (hosted_words.h).
//
// Steps are double-buffered: the copy of the next input overlaps the host's work. Words are written
// and awaited by stream memory operations and reset themselves. Only a number in a call slot
// changes from call to call, so captured calls can be replayed and mixed with plain ones. Calls
// return at once, unless the rank is kCallsAhead calls ahead. Guarantees: calls run in order, on
// any streams; nothing else uses the host engine meanwhile; a fault ends waits. A group's messages
// go in rounds of one piece per peer: peers that take large messages in several groups must not
// wait for each other crosswise. Cost: two copies and three memory operations per step, and a
// thread per rank. It also does puts and signals, even for ranks whose other calls run on GPUs
// (post_one_sided()). Collectives that have rings, and messages, can run as kernels instead
// (internode_kernels.h), in one order with all other calls, those of a group in one launch if
// possible (call_run.h).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/call_run.h"
#include "collectives/gpu/gpu_engine.h"
#include "collectives/gpu/launch_turn.h"
#include "collectives/gpu/posted_calls.h"
#include "collectives/gpu/staging/call_slots.h"
#include "collectives/gpu/staging/hosted_service.h"
#include "collectives/gpu/staging/internode_kernels.h"
#include "collectives/gpu/staging/pinned_staging.h"
#include "collectives/gpu/stream_order.h"
#include "collectives/gpu/team_devices.h"
#include "collectives/watchdog/internode_status.h"
#include "transport/proxy/proxy_errand.h"

namespace rondo::gpu {

class HostProxy final : public GpuEngine {
 public:
  // Pinned memory that a rank requests; ranks use the minimum of all requests.
  static std::uint64_t wanted_bytes();
  // For a rank whose host view is ready. bytes: of pinned memory, equal on all ranks. Nothing may
  // be posted before start().
  static Result<std::unique_ptr<HostProxy>> make(CommunicatorState& state, std::uint64_t bytes);
  ~HostProxy() override;
  HostProxy(const HostProxy&) = delete;
  HostProxy& operator=(const HostProxy&) = delete;

  // Kernels run calls from start() on, on all ranks or on none.
  void add_kernels(std::unique_ptr<InternodeKernels> kernels) { kernels_ = std::move(kernels); }
  Proxy& proxy() { return proxy_; }
  ProxyErrands& errands() { return errands_; }
  // For puts to other hosts. On the proxy's thread.
  Status lend_staging();
  Status start();

  // report(): a control message. gone(): a rank that is gone, or -1. If there are several hosts.
  void report(int peer, std::span<const std::byte> message);
  int gone() const { return status_ ? status_->gone() : -1; }

  double predicted_ns(const CallRecord& record) const override;
  const DevicePlanFacts* plan_facts() const override {
    return kernels_ ? &kernels_->plan_facts() : nullptr;
  }
  void set_tuned(const std::shared_ptr<const TunedWays>& ways) override {
    if (kernels_) kernels_->set_tuned(ways);
  }
  Status post(std::span<const Call> calls, Mismatch* mismatch) override;
  bool is_enqueued(std::chrono::microseconds) override { return true; }
  // Puts, signals and waits for signals of one group.
  Status post_one_sided(std::span<const Call> calls);
  bool kernel_gave_up(std::optional<Fault>*) const override {
    return kernels_ && kernels_->gave_up();
  }
  void end(const Fault& fault) override;
  GpuMemoryUse memory() const override;
  // Waits some seconds until the streams have finished their calls; a stream that has not continues
  // with a fault. Nothing may be posted afterwards.
  void close();

 private:
  HostProxy(CommunicatorState& state, std::uint64_t bytes);
  Status open();
  Status post_collective(const Call& call);
  Status post_by_kernels(const Call& call, const DevicePlan& plan);
  JointCall& next_joint(const Call& call);
  Status post_by_host(const Call& call);
  // Launches the run of collectives, if there is one.
  Status flush();
  Status announce(const Call& call, const GpuCaptureInfo& capture);
  Status post_messages(std::span<const Call> calls);
  Status launch_messages(std::span<const Call> calls, Mismatch* mismatch);
  using CopyStep = std::function<Status(std::uint64_t step, bool in)>;
  Status enqueue(GpuStream stream, HostedCall call, const CopyStep& copy);
  Status enqueue_group(std::span<const GpuStream> streams, HostedCall call, const CopyStep& copy);
  // enqueue() on the first stream, ordered after and before the group's other streams.
  template <class Enqueue>
  Status on_one_of(std::span<const GpuStream> streams, Enqueue&& enqueue);
  // launch(), with what keeps the rank's kernels in order.
  template <class Launch>
  Status launch_in_order(GpuStream stream, const GpuCaptureInfo& capture, Launch&& launch);

  CommunicatorState& state_;
  const int rank_, size_, device_;
  const bool implicit_order_ = LaunchTurn::is_wanted();
  StreamOrder order_;
  PinnedStaging staging_;
  CallSlots slots_;
  std::unique_ptr<InternodeKernels> kernels_;  // null: the host does all calls
  NewestDevicePlan newest_{rank_ == 0};        // of kernels_
  const TeamDevices own_device_;               // only this rank's
  CallRun run_;                                // collectives by kernels that are not launched yet
  std::deque<JointCall> joint_;                // their calls, and room for more
  std::size_t joined_ = 0;                     // number of these that are in the run
  std::unique_ptr<InternodeStatus> status_;    // null: all ranks are on this host
  Proxy proxy_;
  ProxyErrands errands_{proxy_};
  HostedService service_;
  bool closed_ = false;
};

}  // namespace rondo::gpu
