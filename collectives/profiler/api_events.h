// SPDX-License-Identifier: Apache-2.0
// Events of the C API for a profiler plugin: GroupEvent (GroupApi) and CallEvent (CollApi, P2pApi).
//
// Order, as in NCCL: the group starts, its calls start and stop as the program makes them; then the
// rank's Coll and P2p events follow, with the call as parent. Guarantees: a group stops after all
// its calls have run, also where another thread runs them, because each call holds its group; so a
// parent is alive in the plugin when its children start.
#pragma once

#include <memory>

#include "collectives/context/call.h"
#include "collectives/profiler/abi.h"
#include "collectives/profiler/profiler_plugin.h"

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

}  // namespace rondo::profiler
