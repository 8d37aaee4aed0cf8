// SPDX-License-Identifier: Apache-2.0
// HostProxy: a rank on a GPU in a communicator that spans several hosts, or whose processes share
// some of several GPUs. Its calls pass through pinned memory: the stream copies a
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
// (post_one_sided()). If ranks of several hosts have kernels (internode/internode_edges.h), it does
// only what kernels cannot do, and its thread drives the kernels' connections.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/faults/internode_status.h"
#include "collectives/gpu/calls/gpu_engine.h"
#include "collectives/gpu/calls/posted_calls.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/staging/call_slots.h"
#include "collectives/gpu/staging/hosted_service.h"
#include "collectives/gpu/staging/pinned_staging.h"
#include "collectives/host/rank_state.h"
#include "transport/proxy/proxy_errand.h"

namespace rondo::gpu {

class HostProxy final : public GpuEngine {
 public:
  // Pinned memory that a rank requests; ranks use the minimum of all requests.
  static std::uint64_t wanted_bytes();
  // For a rank whose host view is ready. bytes: of pinned memory, equal on all ranks. Nothing may
  // be posted before start().
  static Result<std::unique_ptr<HostProxy>> make(RankState& state, std::uint64_t bytes);
  ~HostProxy() override;
  HostProxy(const HostProxy&) = delete;
  HostProxy& operator=(const HostProxy&) = delete;

  Proxy& proxy() { return proxy_; }
  ProxyErrands& errands() { return errands_; }
  // For puts to other hosts. On the proxy's thread.
  Status lend_staging();

  // What kernels of the rank between hosts need of its thread. The task must live until close().
  struct KernelsBeside {
    ProxyTask* task = nullptr;  // null: the rank has no such kernels
    // Of InternodeStatus::Options.
    std::function<Progress()> progress = [] { return Progress{}; };
    std::function<std::optional<Wait>()> wait = [] { return std::optional<Wait>(); };
    std::function<const Error*(int*)> lost = [](int*) { return nullptr; };
  };
  Status start(const KernelsBeside& kernels);
  Status start() { return start({}); }
  // For these: the order of all calls, the reports to rank 0, and a collective without a kernel,
  // between begin() and end() of that order.
  StreamOrder& order() { return order_; }
  InternodeStatus* status() { return status_.get(); }
  Status enqueue_collective(const CallRecord& record, const Buffers& buffers, GpuStream stream,
                            bool captured);

  // report(): a control message. gone(): a rank that is gone, or -1. If there are several hosts.
  void report(int peer, std::span<const std::byte> message);
  int gone() const { return status_ ? status_->gone() : -1; }

  double predicted_ns(const CallRecord& record) const override;
  Status post(std::span<const Call> calls, Mismatch* mismatch) override;
  // Puts, signals and waits for signals of one group. name: the network's address of the bytes of a
  // put; null: it has none, so the put passes through pinned memory.
  using NameToNetwork = std::function<const void*(const Call&)>;
  Status post_one_sided(std::span<const Call> calls, const NameToNetwork& name);
  void end() override;
  GpuMemoryUse memory() const override;
  // Waits some seconds until the streams have finished their calls; a stream that has not continues
  // with a fault. Nothing may be posted afterwards.
  void close();

 private:
  HostProxy(RankState& state, std::uint64_t bytes);
  Status open();
  Status post_collective(const Call& call);
  Status post_messages(std::span<const Call> calls);
  using CopyStep = std::function<Status(std::uint64_t step, bool in)>;
  // serve(): on the first of these streams, in the order of all calls.
  Status serve(std::span<const GpuStream> streams, HostedCall call, const CopyStep& copy);
  Status enqueue(GpuStream stream, bool captured, HostedCall call, const CopyStep& copy);

  RankState& state_;
  const int rank_, size_, device_;
  StreamOrder order_;
  PinnedStaging staging_;
  CallSlots slots_;
  std::unique_ptr<InternodeStatus> status_;  // null: all ranks are on this host
  Proxy proxy_;
  ProxyErrands errands_{proxy_};
  HostedService service_;
  bool closed_ = false;
};

}  // namespace rondo::gpu
