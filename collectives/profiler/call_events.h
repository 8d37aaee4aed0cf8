// SPDX-License-Identifier: Apache-2.0
// The events that a profiler plugin gets. Of the C API: GroupEvent (GroupApi) and CallEvent
// (CollApi, P2pApi). Of a rank's calls: CallEvents (Group, Coll, P2p).
//
// Order, as in NCCL: the group starts, its calls start and stop as the program makes them; then the
// rank's Coll and P2p events follow, with the call as parent. Guarantees: a group stops after all
// its calls have run, also where another thread runs them, because each call holds its group; so a
// parent is alive in the plugin when its children start.
//
// On host memory CallEvents observes the rank's CallRecorder: a Coll or P2p begins when the rank
// has announced the call, and ends with the call. For ranks on GPUs it begins when the call is
// posted and ends when its kernels are on their stream. A Group holds the calls that the engine
// runs together: fused collectives, the messages of a group, or one call. Calls that the program
// did not make (Call::api is null) have no events. One thread at a time. Cost without a plugin:
// the calls test flags.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/profiler/abi.h"
#include "collectives/profiler/describe.h"
#include "collectives/profiler/profiler_plugin.h"
#include "kernels/host/call_recorder.h"

namespace rondo::profiler {

class GroupEvent {
 public:
  // depth: of ncclGroupStart, plus 1. captured: in a CUDA graph.
  GroupEvent(std::shared_ptr<Profiler> profiler, int depth, bool captured);
  ~GroupEvent() { profiler_->stop(handle_); }
  GroupEvent(const GroupEvent&) = delete;
  GroupEvent& operator=(const GroupEvent&) = delete;

  void* handle() const { return handle_; }
  void end_begins() const { profiler_->record(handle_, abi::kGroupEndApiStart); }

 private:
  const std::shared_ptr<Profiler> profiler_;
  void* handle_ = nullptr;
};

class CallEvent {
 public:
  // Starts and stops the event of a call in this group; `call` is complete.
  CallEvent(const Profiler& profiler, std::shared_ptr<const GroupEvent> group, const Call& call,
            bool captured);
  void* handle() const { return handle_; }  // parent of Coll and P2p

 private:
  const std::shared_ptr<const GroupEvent> group_;
  void* handle_ = nullptr;
};

class CallEvents final : public host::CallObserver {
 public:
  explicit CallEvents(std::shared_ptr<Profiler> profiler) : profiler_(std::move(profiler)) {}
  ~CallEvents() override { stop(); }
  CallEvents(const CallEvents&) = delete;
  CallEvents& operator=(const CallEvents&) = delete;

  const std::shared_ptr<Profiler>& profiler() const { return profiler_; }

  // Collectives that the rank announces next, as one. They live until then.
  void next(std::span<const Call> calls) { next_ = calls; }
  void on_begin(std::uint8_t algorithm, std::uint8_t protocol) override;
  void on_end() override { stop(); }

  void start(const Call& call, const Way& way);
  void stop();  // all that have started

 private:
  static constexpr std::size_t kFunctions = static_cast<std::size_t>(Collective::kWaitSignal) + 1;

  const std::shared_ptr<Profiler> profiler_;
  std::span<const Call> next_;
  std::vector<void*> open_;
  void* group_ = nullptr;
  std::array<std::uint64_t, kFunctions> counts_{};  // of Coll events of each function
};

// The messages of a group, from before the first one until the end of the scope. events: may be
// null.
class MessageEvents {
 public:
  MessageEvents(CallEvents* events, std::span<const Call> calls) : events_(events) {
    if (events_ == nullptr) return;
    for (const Call& call : calls)
      if (is_point_to_point(call)) events_->start(call, {});
  }
  ~MessageEvents() {
    if (events_ != nullptr) events_->stop();
  }
  MessageEvents(const MessageEvents&) = delete;
  MessageEvents& operator=(const MessageEvents&) = delete;

 private:
  CallEvents* const events_;
};

}  // namespace rondo::profiler
