#include "collectives/gpu/staging/hosted_service.h"

#include <chrono>
#include <cstring>

#include "base/atomics.h"
#include "base/guard.h"
#include "base/poll_until.h"
#include "collectives/gpu/control_segment.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr auto kNap = std::chrono::microseconds(50);
constexpr int kTurnsBeforeNaps = 2000;
constexpr double kSecondsToHear = 0.3;

}  // namespace

Done HostedService::start() {
  RONDO_TRY(thread_, Thread::start(
                         "calls through the host", [this] { serve(); }, [](const Error&) {}));
  return done();
}

void HostedService::stop() {
  stop_ = true;
  parts_.slots.posted();
  if (thread_.joinable()) thread_.join();
}

void HostedService::forget() {
  if (thread_.joinable()) thread_.detach();
}

void HostedService::serve() {
  const RelaxedCapture relaxed;
  int idle = 0;
  while (!stop_) {
    if (parts_.slots.has_ended()) {
      release();
      continue;
    }
    const std::uint32_t mail = HostAtomics::load_acquire(parts_.staging.words().call_slot);
    if (mail == 0) {
      if (++idle < kTurnsBeforeNaps) continue;
      parts_.slots.wait_for_post(idle < 2 * kTurnsBeforeNaps ? kNap : 20 * kNap);
      continue;
    }
    idle = 0;
    (void)guarded(
        "a call through the host", [&] { return run_call(mail - 1), done(); },
        [this](const Error& error) { fail_call(error); })
        .ok();
  }
}

void HostedService::run_call(std::uint32_t number) {
  const HostedCall& call = parts_.slots[number];
  const CallSteps steps(call.record, parts_.on_host.size(), parts_.staging.shape());
  const auto idle = [this](int turn) {
    if (stop_ || parts_.slots.has_ended()) return false;
    if (turn >= kTurnsBeforeNaps) parts_.slots.wait_for_post(kNap);
    return true;
  };
  const auto do_step = [&](std::uint32_t step) {
    const Done result = run_step(call, steps, step);
    if (result.ok()) return true;
    if (!hears_of_end(result.status())) fail_call(result.error());
    return false;
  };
  serve_steps<HostAtomics>(parts_.staging.words(), static_cast<std::uint32_t>(call.steps(steps)),
                           idle, do_step, [&] { parts_.slots.served(number); });
}

Done HostedService::run_step(const HostedCall& call, const CallSteps& steps, std::uint64_t step) {
  if (!call.signals.empty() && step == 0) return parts_.on_host.run(call.signals);
  if (!call.waits.empty()) return parts_.on_host.run(call.waits);
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
        of.peer, static_cast<std::uint64_t>(of.peer) * staging.piece_bytes(parts_.on_host.size()));
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
  return parts_.on_host.run(calls);
}

// Whoever ended the host's communicator elsewhere says why on a connection of its own, a moment
// later.
bool HostedService::hears_of_end(Status status) const {
  if (!parts_.kernels) return false;
  const auto is_known = [this] {
    return parts_.slots.has_ended() || parts_.kernels->heard_of_end();
  };
  if (status == Status::kRemoteError) poll_until(is_known, seconds_from_now(kSecondsToHear));
  return parts_.kernels->heard_of_end();
}

// The ranks of the host's communicator know, or will.
void HostedService::fail_call(const Error& error) {
  if (!parts_.slots.end()) return;
  (void)guarded("a fault", [&] {
    Fault fault;
    if (const auto found = parts_.on_host.fault()) fault = *found;
    fault.status = error.status;
    fault.text = error.text;
    return parts_.raise(std::move(fault)), done();
  }).ok();
}

void HostedService::release() {
  HostAtomics::store_release(parts_.staging.words().done, kReleased);
  parts_.slots.wait_for_post(20 * kNap);
}

}  // namespace rondo::gpu
