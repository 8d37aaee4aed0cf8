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

bool HostedRank::wait_ready(std::uint32_t step) {
  for (int turn = 0; HostAtomics::load_acquire(words_->ready) < step; ++turn) {
    if (stop_ || ended_) return false;
    if (turn >= kTurnsBeforeNaps) std::this_thread::sleep_for(kNap);
  }
  return true;
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
  for (std::uint32_t j = 0; j < last; ++j) {
    if (!wait_ready(j + 1)) return;
    const Done result = run_step(call, steps, j);
    if (!result.ok()) {
      // Whoever ended the twin elsewhere says why on a connection of its own, a moment later.
      for (int i = 0; kernels_ && result.status() == Status::kRemoteError && i < kMoments; ++i)
        if (!ended_ && !kernels_->heard_of_end()) std::this_thread::sleep_for(kMoment);
      if (kernels_ && kernels_->heard_of_end()) return;
      return fail_call(result.error());
    }
    if (j + 1 == last) {
      // The stream's next call writes them anew, after it has seen the last DONE.
      HostAtomics::store_release(words_->ready, std::uint32_t{0});
      HostAtomics::store_release(words_->mailbox, std::uint32_t{0});
      if (plain) served_.fetch_add(1, std::memory_order_release);
    }
    HostAtomics::store_release(words_->done, j + 1);
  }
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
