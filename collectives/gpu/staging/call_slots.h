// CallSlots: the calls that a stream will ask the host for, by number: the stream's words carry
// nothing else.
//
// Plain calls take turns in the first kAhead placement; captured ones keep theirs, and calls that
// are alike share one, so that graphs can be replayed. Guarantees: a plain call waits while the
// rank is kAhead of them ahead of its stream, and no longer than its limit; a place's call stays
// where it is until it was served. Cost: a mutex a call; captured ones are compared with all
// before.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/result.h"
#include "collectives/gpu/calls_ahead.h"
#include "collectives/gpu/staging/hosted_call.h"

namespace rondo::gpu {

class CallSlots {
 public:
  static constexpr std::size_t kAhead = kCallsAhead;

  // limit_seconds: that a call may wait for earlier ones to end; 0: no limit. rank: for messages.
  CallSlots(int rank, double limit_seconds)
      : rank_(rank), limit_seconds_(limit_seconds), calls_(kAhead) {}

  Result<std::uint32_t> place(HostedCall made, bool in_capture);
  // For the thread that serves.
  const HostedCall& operator[](std::uint32_t number);
  void served(std::uint32_t number);
  bool any_waits() const {  // of plain calls
    return served_.load(std::memory_order_relaxed) != plain_.load(std::memory_order_relaxed);
  }

  // No call is served any more; true for the first to say so.
  bool end();
  bool has_ended() const { return ended_; }

 private:
  Status wait_for_room(std::unique_lock<std::mutex>& lock);

  const int rank_;
  const double limit_seconds_;
  std::mutex mutex_;
  std::condition_variable served_one_;
  std::deque<HostedCall> calls_;
  std::atomic<std::uint64_t> plain_{0};  // placed
  std::atomic<std::uint64_t> served_{0};
  std::atomic<bool> ended_{false};
};

}  // namespace rondo::gpu
