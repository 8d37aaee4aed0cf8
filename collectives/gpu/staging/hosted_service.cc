// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/staging/hosted_service.h"

#include <sched.h>

#include <cstring>
#include <utility>

#include "base/atomics.h"
#include "base/guard.h"
#include "collectives/gpu/agree/control_segment.h"

namespace rondo::gpu {

void HostedService::report_faults(std::function<void(const Fault&)> report) {
  report_ = std::move(report);
  parts_.state.faults.set_report_to_other_hosts(
      [this](const Fault& fault) { report_or_leave_to_thread(fault); });
}

bool HostedService::progress() {
  if (own_thread_.load(std::memory_order_relaxed) == std::thread::id())
    own_thread_ = std::this_thread::get_id();
  if (parts_.slots.has_ended()) {
    report_what_is_left();
    release();
    return false;
  }
  const std::uint32_t slot = HostAtomics::load_acquire(parts_.staging.words().call_slot);
  if (slot == 0) return parts_.state.faults.adopt_from_peers();  // no call's wait does this now
  (void)guarded(
      "a call through the host", [&] { return run_call(slot - 1), ok_status(); },
      [this](const Error& error) { fail_call(error); })
      .ok();
  return true;
}

// Only the proxy's thread uses the links.
void HostedService::report_or_leave_to_thread(const Fault& fault) {
  if (own_thread_ == std::this_thread::get_id()) return report_(fault);
  const std::lock_guard lock(mutex_);
  unsent_ = fault;
}

void HostedService::report_what_is_left() {
  std::optional<Fault> fault;
  {
    const std::lock_guard lock(mutex_);
    fault = std::exchange(unsent_, std::nullopt);
  }
  if (fault) report_(*fault);
}

void HostedService::run_call(std::uint32_t number) {
  const HostedCall& call = parts_.slots[number];
  const CallSteps steps(call.record, parts_.state.members.size, parts_.staging.shape());
  const auto idle = [this](int) {
    if (parts_.proxy.stops() || parts_.slots.has_ended()) return false;
    if (!parts_.proxy.turn()) sched_yield();
    return true;
  };
  const auto do_step = [&](std::uint32_t step) {
    const Status result = run_step(call, steps, step);
    if (!result.ok()) fail_call(result.error());
    return result.ok();
  };
  serve_steps<HostAtomics>(parts_.staging.words(), static_cast<std::uint32_t>(call.steps(steps)),
                           idle, do_step, [&] { parts_.slots.served(number); });
}

Status HostedService::run_step(const HostedCall& call, const CallSteps& steps, std::uint64_t step) {
  if (step < call.rounds.size()) return parts_.state.run_calls(call.rounds[step]);
  if (!call.waits.empty()) {
    RONDO_CHECK_OK(parts_.state.run_calls(call.waits));
    return parts_.state.one_sided.remote_puts().flush_windows();
  }
  const PinnedStaging& staging = parts_.staging;
  std::vector<Call> calls;
  const auto add = [&](const CallRecord& record, int peer, std::uint64_t at) {
    Call& one = calls.emplace_back();
    one.record = record;
    one.peer = peer;
    one.send = staging.input(step) + at;
    one.receive = staging.output(step) + at;
    const std::uint64_t scalar =
        call.late_scalar ? HostAtomics::load_acquire(staging.words().scalar) : call.scalar;
    std::memcpy(one.scalar.data(), &scalar, sizeof(scalar));
  };
  for (const MessagePieces& of : call.messages) {
    if (step >= of.pieces.size()) continue;
    const MessagePieces::Piece& piece = of.pieces[step];
    add({piece.count, of.sends ? Collective::kSend : Collective::kRecv, piece.type, RedOp::kSum, 0,
         -1},
        of.peer,
        static_cast<std::uint64_t>(of.peer) * staging.piece_bytes(parts_.state.members.size));
  }
  if (call.messages.empty()) {
    const cuda::CallStep part = steps[step];
    CallRecord record = call.record;
    record.count = part.count;
    if (part.segment >= 0) {
      record.collective = Collective::kReduce;
      record.root = static_cast<std::int32_t>(part.segment);
    }
    add(record, -1, 0);
  }
  return parts_.state.run_calls(calls);
}

// An error that is not yet a fault becomes this rank's: else no other rank would learn of it.
void HostedService::fail_call(const Error& error) {
  FaultState& faults = parts_.state.faults;
  (void)guarded("a fault", [&] {
    if (!faults.is_raised() && faults.ended() == FaultState::kRunning)
      faults.raise(faults.make(error.code, -1, error.text));
    return ok_status();
  }).ok();
  parts_.slots.end();
}

void HostedService::release() {
  HostAtomics::store_release(parts_.staging.words().done, kReleased);
}

}  // namespace rondo::gpu
