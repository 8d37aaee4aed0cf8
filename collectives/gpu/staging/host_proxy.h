// SPDX-License-Identifier: Apache-2.0
// HostProxy: does the calls of a rank on a GPU on the host, in a communicator that spans several
// hosts, or whose processes share some of several GPUs. To the rank's team it is the edges to all
// other ranks (team_edges.h), over which no kernel runs: the stream copies a step's input to pinned
// memory, a thread runs the step with the rank's own host engine (shared memory within
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

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/faults/internode_status.h"
#include "collectives/gpu/calls/team_edges.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/staging/call_slots.h"
#include "collectives/gpu/staging/pinned_staging.h"
#include "collectives/host/rank_state.h"
#include "transport/proxy/proxy_errand.h"

namespace rondo::gpu {

class HostProxy final : public TeamEdges, public ProxyTask {
 public:
  // Pinned memory that a rank requests; ranks use the minimum of all requests.
  static std::uint64_t wanted_bytes();
  // For a rank whose host view is ready. bytes: of pinned memory, equal on all ranks. shares_gpu:
  // other processes use its GPU. Nothing may be posted before start().
  static Result<std::unique_ptr<HostProxy>> make(RankState& state, std::uint64_t bytes,
                                                 bool shares_gpu);
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
  InternodeStatus* status() { return status_.get(); }  // null: all ranks are on this host

  // report(): a control message. gone(): a rank that is gone, or -1. If there are several hosts.
  void report(int peer, std::span<const std::byte> message);
  int gone() const { return status_ ? status_->gone() : -1; }

  const DevicePlanFacts& facts() const override { return no_kernels_; }
  DeviceConnections* connections() const override { return nullptr; }
  StreamOrder& order() override { return order_; }
  void add_memory(int rank, GpuMemoryUse* use) override;
  double predicted_ns(const CallRecord& record) const override;
  Status announce(const CallRecord&, bool, Mismatch*) override { return ok_status(); }
  Status run_elsewhere(const CallRecord& record, std::span<const Buffers> buffers, GpuStream stream,
                       bool captured, Mismatch* mismatch) override;
  Result<Enqueue> prepare(std::span<const ProcessMessage> messages, bool captured,
                          Mismatch* mismatch) override;
  bool does_own_messages() const override { return true; }
  // Puts, signals and waits for signals of one group. name: the network's address of the bytes of a
  // put; null: it has none, so the put passes through pinned memory.
  using NameToNetwork = std::function<const void*(const Call&)>;
  Status post_one_sided(std::span<const Call> calls, const NameToNetwork& name);
  void end() override;
  // Waits some seconds until the streams have finished their calls; a stream that has not continues
  // with a fault. Nothing may be posted afterwards.
  void close();

  // On the proxy, whose thread alone uses the rank's host engine: does what the stream requests.
  // While a call waits for its stream or for peers, the proxy's other tasks continue. A call that
  // fails ends the rank; streams then continue, whatever they wait for. Cost: a load of a word per
  // turn.
  bool progress() override;
  bool is_busy() const override { return !slots_.has_ended() && slots_.any_waits(); }
  void finish() override { report_what_is_left(); }

 private:
  HostProxy(RankState& state, std::uint64_t bytes, bool shares_gpu);
  Status open();
  DirectLaunches copies_of_step(GpuStream stream, bool in) const;
  using CopyStep = std::function<Status(std::uint64_t step, bool in)>;
  Status enqueue(GpuStream stream, bool captured, HostedCall call, const CopyStep& copy);
  void run_call(std::uint32_t number);
  Status run_step(const HostedCall& call, const CallSteps& steps, std::uint64_t step);
  void fail_call(const Error& error);
  // The rank's faults, to other hosts.
  void report_or_leave_to_thread(const Fault& fault);
  void report_what_is_left();

  RankState& state_;
  const int rank_, size_, device_;
  const bool shares_gpu_;
  const DevicePlanFacts no_kernels_{};
  StreamOrder order_;
  PinnedStaging staging_;
  CallSlots slots_;
  std::unique_ptr<InternodeStatus> status_;  // null: all ranks are on this host
  Proxy proxy_;
  ProxyErrands errands_{proxy_};
  std::atomic<std::thread::id> own_thread_{};  // the proxy's
  std::mutex unsent_mutex_;
  std::optional<Fault> unsent_;  // found by another thread
  bool closed_ = false;
};

}  // namespace rondo::gpu
