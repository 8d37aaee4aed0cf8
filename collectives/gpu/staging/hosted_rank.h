// HostedRank: a rank on a GPU in a communicator that spans several hosts, or whose processes share
// GPUs out of each other's reach. Its calls pass through pinned memory: the stream copies a step's
// input there, a thread runs the step on the host, with a communicator of its own (shared memory
// within a host, TCP between hosts), and the stream copies the output back (hosted_words.h).
//
// Steps are double-buffered: the copy of the next input overlaps the host's work. Words are written
// and awaited by stream memory operations and reset themselves, and all that changes from call to
// call is a number in a mailbox, so captured calls can be replayed and mixed with plain ones. Calls
// return at once, unless the rank is 256 of them ahead. Guarantees: the order of calls on whatever
// streams; faults of the host's call become the rank's; abort ends waits. A group's messages go in
// rounds of one piece a peer: peers that take large messages in several groups must not wait for
// each other crosswise. Cost: two copies and three memory operations a step, and a thread a rank.
// It does puts and signals too, also for ranks whose other calls run on GPUs (post_one_sided()).
// Large calls can run as kernels instead (spanning_kernels.h), in one order with all others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/thread.h"
#include "collectives/communicator/communicator.h"
#include "collectives/gpu/device_team.h"
#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/staging/hosted_words.h"
#include "collectives/gpu/staging/spanning_kernels.h"
#include "collectives/gpu/stream_order.h"

namespace rondo::gpu {

bool same_signals(const std::vector<Call>& some, const std::vector<Call>& others);

class HostedRank {
 public:
  // Pinned memory of a rank; ranks use the least that any of them may.
  static std::uint64_t wanted_bytes();
  struct Terms {
    int device = 0;
    std::uint64_t bytes = 0;   // of pinned memory
    double limit_seconds = 0;  // that a call may wait for earlier ones to end; 0: for ever
  };
  // twin: a communicator of the same ranks on the host, nobody else's. raise: takes its faults.
  static Result<std::unique_ptr<HostedRank>> make(std::shared_ptr<Communicator> twin,
                                                  const Terms& terms,
                                                  std::function<void(Fault)> raise);
  ~HostedRank();
  HostedRank(const HostedRank&) = delete;
  HostedRank& operator=(const HostedRank&) = delete;

  // Before the first call, on all ranks alike: what runs large calls from then on.
  void add_kernels(std::unique_ptr<SpanningKernels> kernels) { kernels_ = std::move(kernels); }

  bool runs_as_kernel(const CallRecord& record) const {
    return kernels_ && kernels_->plan(record).has_value();
  }

  // Enqueues the calls of one group; the rank's device must be current.
  Done post(std::span<const DeviceCall> calls);
  // The same of puts, signals and waits for signals (hosted_one_sided.cc).
  Done post_one_sided(std::span<const DeviceCall> calls);
  // A kernel of the rank waited too long: the fault comes soon.
  bool kernel_gave_up() const { return kernels_ && kernels_->gave_up(); }
  // All waits end, because of this; from any thread.
  void end(const Fault& fault);

 private:
  // Pieces of a group's messages from or to one rank, in order.
  struct Lane {
    int peer = 0;
    bool sends = false;
    std::vector<std::uint64_t> pieces;  // bytes
    std::vector<std::byte*> at;         // in the caller's buffers; the thread does not look
    bool same_as(const Lane& other) const {
      return peer == other.peer && sends == other.sends && pieces == other.pieces;
    }
  };
  // What the thread must know of a call.
  struct Descriptor {
    CallRecord record;  // of a collective
    std::uint64_t scalar = 0;
    bool late_scalar = false;
    std::vector<Lane> lanes;           // else messages
    std::vector<Call> signals, waits;  // else signals of one group: given, and waited for
    std::uint64_t signal_steps() const { return !signals.empty() + !waits.empty(); }
    bool same_as(const Descriptor& other) const;
  };

  HostedRank(std::shared_ptr<Communicator> twin, const Terms& terms,
             std::function<void(Fault)> raise);
  Done open();
  void end();
  Done post_collective(const DeviceCall& call);
  Done launch_kernel(const DevicePlan& plan, const DeviceCall& call);
  Done post_messages(std::span<const DeviceCall> calls);
  Result<std::uint32_t> place(Descriptor made, bool in_capture);
  Done wait_for_room(std::unique_lock<std::mutex>& lock);
  using CopyStep = std::function<Done(std::uint64_t step, bool in)>;
  Done enqueue(GpuStream stream, Descriptor descriptor, std::uint64_t steps, const CopyStep& copy);
  // A group's other streams come before its calls, and after.
  Done join_before(GpuStream stream, std::span<const GpuStream> others);
  Done join_after(std::span<const GpuStream> others);
  Done write(GpuStream stream, std::uint32_t& word, std::uint32_t value);
  Done await(GpuStream stream, std::uint32_t& word, std::uint32_t at_least);
  std::byte* input(std::uint64_t step) const { return memory_ + shape_.input(0, step); }
  std::byte* output(std::uint64_t step) const { return memory_ + shape_.output(0, step); }
  std::uint64_t piece_bytes() const;

  // hosted_service.cc
  void serve();
  void run_call(const Descriptor& call, bool plain);
  void fail_call(const Error& error);
  Done run_step(const Descriptor& call, const CallSteps& steps, std::uint64_t step);
  Done run_signals(const Descriptor& call, std::uint64_t step);
  void release();

  const GpuApi& api_;
  const std::shared_ptr<Communicator> twin_;
  const int device_;
  const double limit_seconds_;
  const cuda::StagingShape shape_;
  const std::function<void(Fault)> raise_;
  const std::uint32_t made_in_;
  void* pinned_ = nullptr;
  std::byte* memory_ = nullptr;
  HostedWords* words_ = nullptr;
  std::byte* on_device_ = nullptr;  // where streams see pinned_
  StreamOrder order_;

  std::mutex mutex_;
  std::condition_variable posted_;
  static constexpr std::size_t kAhead = 256;  // plain calls that the rank may run ahead
  std::deque<Descriptor> descriptors_;        // plain ones take turns in the first kAhead places
  std::uint64_t plain_ = 0;                   // calls enqueued
  std::atomic<std::uint64_t> served_{0};
  std::atomic<bool> ended_{false}, stop_{false};
  std::unique_ptr<SpanningKernels> kernels_;  // null: the host does all calls
  Thread thread_;
};

}  // namespace rondo::gpu
