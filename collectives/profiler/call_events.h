// SPDX-License-Identifier: Apache-2.0
// CallEvents: gives a profiler plugin the events of a rank's calls: Group, Coll and P2p.
//
// On host memory it observes the rank's CallRecorder: a Coll or P2p begins when the rank has
// announced the call, and ends with the call. For ranks on GPUs it begins when the call is posted
// and ends when its kernels are on their stream. A Group holds the calls that the engine runs
// together: fused collectives, the messages of a group, or one call. Calls that the program did not
// make (Call::api is null) have no events. One thread at a time. Cost without a plugin: none; the
// recorder's branch decides.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/profiler/api_events.h"
#include "collectives/profiler/describe.h"
#include "collectives/profiler/profiler_plugin.h"
#include "kernels/host/call_recorder.h"

namespace rondo::profiler {

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
