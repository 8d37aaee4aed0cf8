// SPDX-License-Identifier: Apache-2.0
// How kernels wait: a thread spins and checks its CTA's words every thousand iterations. One thread
// of the CTA, the poller, checks the host's words for all.
//
// The first words of shared memory belong to the waits of a CTA. A long wait becomes the poller if
// there is none, and stops being it when it ends. A wait longer than the limit becomes the poller
// in any case, so that Control names it. The role is taken with plain stores: for a moment two
// threads may poll, which is harmless.
//
// Guarantees: a wait ends soon after the host has set Control::abort. It also ends after
// Control::limit_ns without its condition; then Control describes the wait. After one wait of a CTA
// has failed, all its other waits fail too. Cost of a short wait: one counter. Cost of a long wait:
// each CTA reads two words of host memory every thousand iterations, for any number of waiting
// threads.
#pragma once

#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/device.h"

namespace rondo::cuda {

// On an emulated GPU one iteration is a switch between waiting threads, so it is expensive.
#ifdef RONDO_SIMT
inline constexpr unsigned kTurnsBetweenLooks = 20;
#else
inline constexpr unsigned kTurnsBetweenLooks = 1000;
#endif

// The condition that a wait is for.
struct Awaited {
  int channel;
  int peer;
  std::uint64_t step;
  bool room;
};

// The CTA's words: whether a wait has failed; the poller, as 2 * (its thread + 1), plus 1 if it has
// exceeded the limit, or 0; the limit that the poller has read.
enum WaitWord : std::uint32_t { kFailedAt = 0, kPollerAt = 8, kLimitAt = 16 };
static_assert(kLimitAt + 8 <= kWaitShared);

RONDO_FN inline std::uint64_t wait_word(WaitWord at) {
  return device::load_shared_late<std::uint64_t>(at);
}
RONDO_FN inline void set_wait_word(WaitWord at, std::uint64_t value) {
  device::store_shared<std::uint64_t>(at, value);
}
// By one thread, before a barrier that precedes all waits.
RONDO_FN inline void begin_waits() {
  set_wait_word(kFailedAt, 0);
  set_wait_word(kPollerAt, 0);
  set_wait_word(kLimitAt, 0);
}
// A failed CTA neither moves nor signals anything more. Reading this late is harmless.
RONDO_FN inline bool cta_failed() { return wait_word(kFailedAt) != 0; }
RONDO_FN inline void fail_cta() { set_wait_word(kFailedAt, 1); }

// Read by words: the compiler would copy the record byte by byte.
RONDO_FN inline std::uint64_t record_word(const CallRecord& call, unsigned which) {
  return reinterpret_cast<const std::uint64_t*>(&call)[which];
}
// Call: the record of the waiting call, or any type for which record_word() returns the words.
template <class Call>
RONDO_FN inline void write_record(CallRecord* at, const Call& call) {
  auto* const to = reinterpret_cast<std::uint64_t*>(at);
  device::store_relaxed<device::Scope::kSystem>(to, record_word(call, 0));
  device::store_relaxed<device::Scope::kSystem>(to + 1, record_word(call, 1));
}

// One wait of a thread. goes_on() is called every thousand iterations; it returns false if the wait
// must end.
class PollingWait {
 public:
  template <class Call>
  RONDO_FN bool goes_on(Control* control, const Call& call, Awaited awaited) {
    if (cta_failed()) return false;
    const std::uint64_t now = device::timer_ns();
    if (begin_ == 0) begin_ = now;
    const bool over = is_over(wait_word(kLimitAt), now);
    const std::uint64_t poller = wait_word(kPollerAt);
    if (poller / 2 != me()) {
      if (poller == 0 || (over && poller % 2 == 0))
        set_wait_word(kPollerAt, 2 * me() + (over ? 1 : 0));
      return true;
    }
    if (look(control, call, awaited, now)) return true;
    fail_cta();
    return false;
  }
  // To be called when the wait ends.
  RONDO_FN void end() const {
    if (begin_ != 0 && wait_word(kPollerAt) / 2 == me()) set_wait_word(kPollerAt, 0);
  }

 private:
  static RONDO_FN std::uint64_t me() { return device::thread_index() + 1; }
  RONDO_FN bool is_over(std::uint64_t limit, std::uint64_t now) const {
    return limit != 0 && now - begin_ > limit;
  }

  // Checks the host's words. False: all waits must end.
  template <class Call>
  RONDO_FN bool look(Control* control, const Call& call, Awaited awaited, std::uint64_t now) const {
    using device::Scope;
    if (device::load_relaxed<Scope::kSystem>(&control->abort) != 0) return false;
    const std::uint64_t limit = device::load_relaxed<Scope::kSystem>(&control->limit_ns);
    set_wait_word(kLimitAt, limit);
    if (!is_over(limit, now)) return true;
    if (device::exchange_relaxed<Scope::kSystem>(&control->claimed, 1u) != 0) return false;
    const auto write = [](auto* at, auto value) {
      device::store_relaxed<Scope::kSystem>(at, value);
    };
    write(&control->step, awaited.step);
    write(&control->channel, static_cast<std::int32_t>(awaited.channel));
    write(&control->peer, static_cast<std::int32_t>(awaited.peer));
    write(&control->wants_room, awaited.room ? 1u : 0u);
    write_record(&control->call, call);
    device::fence<Scope::kSystem>();
    write(&control->gave_up, 1u);
    write(&control->abort, 1u);
    return false;
  }

  std::uint64_t begin_ = 0;  // time of the first goes_on() call
};

// Callbacks for a long wait: when it becomes long, and when it ends.
struct NoReporter {
  RONDO_FN void waits() const {}
  RONDO_FN void goes_on() const {}
};

// Waits until ready(). False: the wait must end, and the CTA has failed. A wait longer than
// kTurnsBetweenLooks calls reporter.waits(), and reporter.goes_on() when it ends without failure.
template <class Ready, class Call, class Reporter = NoReporter>
RONDO_FN inline bool wait_until(Ready&& ready, Control* control, const Call& call, Awaited awaited,
                                const Reporter& reporter = {}) {
  PollingWait wait;
  unsigned turns = 1;
  for (; !ready(); ++turns) {
    device::spin();
    if (turns == kTurnsBetweenLooks) reporter.waits();
    if (turns % kTurnsBetweenLooks != 0) continue;
    if (!wait.goes_on(control, call, awaited)) return false;
  }
  wait.end();
  if (turns > kTurnsBetweenLooks) reporter.goes_on();
  return true;
}

// The same by a whole warp: until ready() on all of its lanes. Its first lane calls `reporter`.
template <class Ready, class Call, class Reporter = NoReporter>
RONDO_FN inline bool wait_together(Ready&& ready, Control* control, const Call& call,
                                   Awaited awaited, const Reporter& reporter = {}) {
  PollingWait wait;
  unsigned turns = 1;
  for (; device::any(!ready()); ++turns) {
    device::spin();
    if (turns == kTurnsBetweenLooks && device::lane_index() == 0) reporter.waits();
    if (turns % kTurnsBetweenLooks != 0) continue;
    bool goes_on = true;
    if (device::lane_index() == 0) goes_on = wait.goes_on(control, call, awaited);
    if (device::shuffle(goes_on ? 1 : 0, 0) == 0) return false;
  }
  if (device::lane_index() != 0) return true;
  wait.end();
  if (turns > kTurnsBetweenLooks) reporter.goes_on();
  return true;
}

}  // namespace rondo::cuda
