// The thread of a HostedRank: does on the host what the stream has asked for.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/atomics.h"
#include "collectives/gpu/staging/hosted_rank.h"
#include "transport/cuda/device.h"
#include "transport/cuda/shared_memory.h"

namespace rondo::gpu {
namespace {

constexpr auto kNap = std::chrono::microseconds(50);
constexpr int kTurnsBeforeNaps = 2000;
constexpr auto kMoment = std::chrono::milliseconds(1);
constexpr int kMoments = 300;

}  // namespace

void HostedRank::serve() {
  const RelaxedCapture relaxed;
  int idle = 0;
  while (!stop_) {
    if (ended_) {
      release();
      continue;
    }
    const std::uint32_t mail = HostAtomics::load_acquire(words_->mailbox);
    if (mail == 0) {
      if (++idle < kTurnsBeforeNaps) continue;
      std::unique_lock lock(mutex_);
      posted_.wait_for(lock, idle < 2 * kTurnsBeforeNaps ? kNap : 20 * kNap);
      continue;
    }
    idle = 0;
    const Descriptor* call = nullptr;
    {
      std::lock_guard lock(mutex_);
      call = &descriptors_[mail - 1];  // a deque's elements stay where they are
    }
    (void)guarded(
        "a call through the host", [&] { return run_call(*call, mail <= kAhead), done(); },
        [this](const Error& error) { fail_call(error); })
        .ok();
  }
}

// The twin's ranks know, or will.
void HostedRank::fail_call(const Error& error) {
  if (ended_.exchange(true)) return;
  (void)guarded("a fault", [&] {
    Fault fault;
    if (const auto found = twin_->fault()) fault = *found;
    fault.status = error.status;
    fault.text = error.text;
    return raise_(std::move(fault)), done();
  }).ok();
}

void HostedRank::run_call(const Descriptor& call, bool plain) {
  const bool messages = !call.lanes.empty();
  const CallSteps steps(call.record, twin_->size(), shape_);
  std::uint64_t last = messages ? 1 : steps.size();
  if (call.signal_steps() > 0) last = call.signal_steps();
  for (const Lane& lane : call.lanes) last = std::max<std::uint64_t>(last, lane.pieces.size());
  const auto idle = [this](int turn) {
    if (stop_ || ended_) return false;
    if (turn >= kTurnsBeforeNaps) std::this_thread::sleep_for(kNap);
    return true;
  };
  const auto do_step = [&](std::uint32_t number) {
    const Done result = run_step(call, steps, number);
    if (result.ok()) return true;
    // Whoever ended the twin elsewhere says why on a connection of its own, a moment later.
    for (int i = 0; kernels_ && result.status() == Status::kRemoteError && i < kMoments; ++i)
      if (!ended_ && !kernels_->heard_of_end()) std::this_thread::sleep_for(kMoment);
    if (!kernels_ || !kernels_->heard_of_end()) fail_call(result.error());
    return false;
  };
  serve_steps<HostAtomics>(*words_, static_cast<std::uint32_t>(last), idle, do_step, [&] {
    if (plain) served_.fetch_add(1, std::memory_order_release);
  });
}

Done HostedRank::run_step(const Descriptor& call, const CallSteps& steps, std::uint64_t number) {
  if (call.signal_steps() > 0) return run_signals(call, number);
  std::vector<Call> calls;
  const auto add = [&](const CallRecord& record, int peer, std::byte* send, std::byte* receive) {
    Call one;
    one.record = record;
    one.peer = peer;
    one.send = send;
    one.receive = receive;
    const std::uint64_t scalar =
        call.late_scalar ? HostAtomics::load_acquire(words_->scalar) : call.scalar;
    std::memcpy(one.scalar.data(), &scalar, sizeof(scalar));
    calls.push_back(one);
  };
  for (const Lane& lane : call.lanes) {
    if (number >= lane.pieces.size()) continue;
    const std::uint64_t at = static_cast<std::uint64_t>(lane.peer) * piece_bytes();
    add({lane.pieces[number], lane.sends ? Collective::kSend : Collective::kRecv, DataType::kUint8,
         RedOp::kSum, 0, -1},
        lane.peer, input(number) + at, output(number) + at);
  }
  if (call.lanes.empty()) {
    const cuda::CallStep step = steps[number];
    CallRecord record = call.record;
    record.count = step.count;
    if (step.segment >= 0) {
      record.collective = Collective::kReduce;
      record.root = static_cast<std::int32_t>(step.segment);
    }
    add(record, -1, input(number), output(number));
  }
  return twin_->run(calls);
}

// Streams go on, whatever they wait for.
void HostedRank::release() {
  HostAtomics::store_release(words_->done, kReleased);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace rondo::gpu
