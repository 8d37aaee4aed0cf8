// How kernels wait: a spin that looks at the abort word and the clock every thousand turns.
//
// Guarantees: ends soon after the host has set Control::abort, and after Control::limit_ns without
// what it waits for; then it says in Control what it waited for. Cost while the wait is short: one
// counter.
#pragma once

#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/device.h"

namespace rondo::cuda {

// On an emulated GPU a turn is a switch between threads that all wait: dear enough by itself.
#ifdef RONDO_SIMT
inline constexpr unsigned kTurnsBetweenLooks = 20;
#else
inline constexpr unsigned kTurnsBetweenLooks = 1000;
#endif

// What a wait is for.
struct Awaited {
  int channel;
  int peer;
  std::uint64_t step;
  bool room;
};

RONDO_FN inline void write_record(CallRecord* at, const CallRecord& call) {
  std::uint64_t words[2];
  __builtin_memcpy(words, &call, sizeof(words));
  auto* const to = reinterpret_cast<std::uint64_t*>(at);
  device::store_relaxed<device::Scope::kSystem>(to, words[0]);
  device::store_relaxed<device::Scope::kSystem>(to + 1, words[1]);
}

// For a wait that began at `begin` (0: now): when it began, or 0 where it shall end.
RONDO_FN inline std::uint64_t look_up(Control* control, const CallRecord& call, Awaited awaited,
                                      std::uint64_t begin) {
  using device::Scope;
  const std::uint64_t now = device::timer_ns();
  if (begin == 0) begin = now;
  if (device::load_relaxed<Scope::kSystem>(&control->abort) != 0) return 0;
  const std::uint64_t limit = device::load_relaxed<Scope::kSystem>(&control->limit_ns);
  const bool over = limit != 0 && now - begin > limit;
  if (over && device::exchange_relaxed<Scope::kSystem>(&control->claimed, 1u) != 0) return 0;
  const auto write = [](auto* at, auto value) { device::store_relaxed<Scope::kSystem>(at, value); };
  write(&control->step, awaited.step);
  write(&control->channel, static_cast<std::int32_t>(awaited.channel));
  write(&control->peer, static_cast<std::int32_t>(awaited.peer));
  write(&control->wants_room, awaited.room ? 1u : 0u);
  write_record(&control->call, call);
  if (!over) return begin;
  device::fence<Scope::kSystem>();
  write(&control->gave_up, 1u);
  write(&control->abort, 1u);
  return 0;
}

// Until ready(); false: it shall not be waited for any longer.
template <class Ready>
RONDO_FN inline bool wait_until(Ready&& ready, Control* control, const CallRecord& call,
                                Awaited awaited) {
  std::uint64_t begin = 0;
  for (unsigned turns = 1; !ready(); ++turns) {
    device::spin();
    if (turns % kTurnsBetweenLooks != 0) continue;
    begin = look_up(control, call, awaited, begin);
    if (begin == 0) return false;
  }
  return true;
}

// The same by a whole warp: until ready() on all of its lanes.
template <class Ready>
RONDO_FN inline bool wait_together(Ready&& ready, Control* control, const CallRecord& call,
                                   Awaited awaited) {
  std::uint64_t begin = 0;
  for (unsigned turns = 1; device::any(!ready()); ++turns) {
    device::spin();
    if (turns % kTurnsBetweenLooks != 0) continue;
    if (device::lane_index() == 0) begin = look_up(control, call, awaited, begin);
    if (device::shuffle(begin != 0 ? 1 : 0, 0) == 0) return false;
  }
  return true;
}

}  // namespace rondo::cuda
