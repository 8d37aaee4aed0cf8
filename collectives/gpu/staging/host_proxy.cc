// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/staging/host_proxy.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/atomics.h"
#include "base/env.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/gpu/agree/control_segment.h"
#include "collectives/gpu/staging/one_sided_rounds.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kMaxPinned = 16 << 20;
constexpr std::uint64_t kLeastPinned = 64 << 10;
constexpr double kPatientSeconds = 10;
constexpr double kJoinSeconds = 10;  // afterwards calls run anyway, and deaths may be reported late
constexpr double kReportSeconds =
    2;  // for streams that are told to end: work of others may precede

}  // namespace

std::uint64_t HostProxy::wanted_bytes() {
  const auto asked = static_cast<std::uint64_t>(
      std::max<std::int64_t>(env::get_int("RONDO_GPU_STAGING"), kLeastPinned));
  return std::min(asked, kMaxPinned) / kLeastPinned * kLeastPinned;
}

Result<std::unique_ptr<HostProxy>> HostProxy::make(RankState& state, std::uint64_t bytes,
                                                   bool shares_gpu) {
  std::unique_ptr<HostProxy> made(new HostProxy(state, bytes, shares_gpu));
  RONDO_CHECK_OK(made->open());
  return made;
}

HostProxy::HostProxy(RankState& state, std::uint64_t bytes, bool shares_gpu)
    : state_(state),
      rank_(state.members.rank),
      size_(state.members.size),
      device_(state.options.device),
      shares_gpu_(shares_gpu),
      staging_(bytes),
      slots_(rank_, state.options.kernel_seconds) {}

Status HostProxy::open() {
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(staging_.open());
  RONDO_CHECK_OK(order_.open({.device = device_,
                              .mixes_graphs = state_.options.mixes_graphs,
                              .takes_turns = state_.options.takes_turns}));
  RONDO_INFO(kInit, "rank {}: calls pass through {} bytes of pinned memory and the host's links",
             rank_, staging_.shape().rank_bytes);
  return proxy_.open();
}

void HostProxy::add_memory(int /*rank*/, GpuMemoryUse* use) {
  use->pinned += staging_.shape().rank_bytes;
}

// Tasks finish in this order: pending reports are sent before the rank reports that it leaves.
Status HostProxy::start(const KernelsBeside& kernels) {
  proxy_.add(errands_);
  proxy_.add(*this);
  if (kernels.task != nullptr) proxy_.add(*kernels.task);
  if (RemoteLinks* const links = state_.remote.links()) {
    const auto raise = [this](Fault found) {
      const bool all_see = rank_ != 0 && found.culprit == 0;  // rank 0 is gone
      state_.faults.raise(std::move(found), !all_see);
    };
    status_ = std::make_unique<InternodeStatus>(
        InternodeStatus::Options{rank_, size_, state_.members.shape, *links,
                                 [this](int rank) { return state_.members.name_of(rank); }, raise,
                                 kernels.progress, kernels.wait, kernels.lost,
                                 [this](std::uint64_t begun, const std::optional<LongWait>& wait) {
                                   state_.show_device_wait(begun, wait);
                                 }});
    proxy_.add(*status_);
    RONDO_CHECK_OK(status_->begin());
    state_.remote.drive_beside([this] { return proxy_.turn(); }, kernels.task);
    state_.faults.set_report_to_other_hosts(
        [this](const Fault& fault) { report_or_leave_to_thread(fault); });
  }
  RONDO_CHECK_OK(proxy_.start());
  // A rank that dies before its link is open would be missed by the judge and by those below it.
  const auto is_settled = [this] { return status_->has_joined() || status_->has_ended(); };
  if (status_) poll_until(is_settled, seconds_from_now(kJoinSeconds));
  return ok_status();
}

void HostProxy::report(int peer, std::span<const std::byte> message) {
  if (status_) status_->report(peer, message);
}

HostProxy::~HostProxy() {
  if (!state_.forked()) {
    close();
    return;
  }
  proxy_.forget();
}

void HostProxy::close() {
  if (std::exchange(closed_, true)) return;
  const auto drained = [&](double seconds) {
    return poll_until([&] { return order_.is_over(); }, seconds_from_now(seconds));
  };
  const bool was_reported = state_.faults.is_raised();
  if (proxy_.runs() && (was_reported || !drained(kPatientSeconds))) {
    if (!was_reported)
      state_.faults.raise(
          Fault::found_by(rank_, StatusCode::kRemoteError, rank_, fault_texts::left_early(rank_)));
    drained(kReportSeconds);
  }
  proxy_.stop();
  state_.one_sided.remote_puts().take_back();
}

Status HostProxy::lend_staging() {
  return state_.one_sided.remote_puts().lend({staging_.input(0), staging_.shape().rank_bytes});
}

void HostProxy::end() {
  if (status_) status_->end();
  slots_.end();
  proxy_.ring();
}

bool HostProxy::progress() {
  if (own_thread_.load(std::memory_order_relaxed) == std::thread::id())
    own_thread_ = std::this_thread::get_id();
  if (slots_.has_ended()) {
    report_what_is_left();
    HostAtomics::store_release(staging_.words().done, kReleased);
    return false;
  }
  const std::uint32_t slot = HostAtomics::load_acquire(staging_.words().call_slot);
  if (slot == 0) return state_.faults.adopt_from_peers();  // no call's wait does this now
  (void)guarded(
      "a call through the host", [&] { return run_call(slot - 1), ok_status(); },
      [this](const Error& error) { fail_call(error); })
      .ok();
  return true;
}

// Only the proxy's thread uses the links.
void HostProxy::report_or_leave_to_thread(const Fault& fault) {
  if (own_thread_ == std::this_thread::get_id()) return status_->report_fault(fault);
  const std::lock_guard lock(unsent_mutex_);
  unsent_ = fault;
}

void HostProxy::report_what_is_left() {
  std::optional<Fault> fault;
  {
    const std::lock_guard lock(unsent_mutex_);
    fault = std::exchange(unsent_, std::nullopt);
  }
  if (fault) status_->report_fault(*fault);
}

void HostProxy::run_call(std::uint32_t number) {
  const HostedCall& call = slots_[number];
  const CallSteps steps(call.record, size_, staging_.shape());
  const auto idle = [this](int) {
    if (proxy_.stops() || slots_.has_ended()) return false;
    if (!proxy_.turn()) sched_yield();
    return true;
  };
  const auto do_step = [&](std::uint32_t step) {
    const Status result = run_step(call, steps, step);
    if (!result.ok()) fail_call(result.error());
    return result.ok();
  };
  serve_steps<HostAtomics>(staging_.words(), static_cast<std::uint32_t>(call.steps(steps)), idle,
                           do_step, [&] { slots_.served(number); });
}

Status HostProxy::run_step(const HostedCall& call, const CallSteps& steps, std::uint64_t step) {
  if (step < call.rounds.size()) return state_.run_calls(call.rounds[step]);
  if (!call.waits.empty()) {
    RONDO_CHECK_OK(state_.run_calls(call.waits));
    return state_.one_sided.remote_puts().flush_windows();
  }
  std::vector<Call> calls;
  const auto add = [&](const CallRecord& record, int peer, std::uint64_t at) {
    Call& one = calls.emplace_back();
    one.record = record;
    one.peer = peer;
    one.send = staging_.input(step) + at;
    one.receive = staging_.output(step) + at;
    const std::uint64_t scalar =
        call.late_scalar ? HostAtomics::load_acquire(staging_.words().scalar) : call.scalar;
    std::memcpy(one.scalar.data(), &scalar, sizeof(scalar));
  };
  for (const MessagePieces& of : call.messages) {
    if (step >= of.pieces.size()) continue;
    const MessagePieces::Piece& piece = of.pieces[step];
    add({piece.count, of.sends ? Collective::kSend : Collective::kRecv, piece.type, RedOp::kSum, 0,
         -1},
        of.peer, static_cast<std::uint64_t>(of.peer) * staging_.piece_bytes(size_));
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
  return state_.run_calls(calls);
}

// An error that is not yet a fault becomes this rank's: else no other rank would learn of it.
void HostProxy::fail_call(const Error& error) {
  FaultState& faults = state_.faults;
  (void)guarded("a fault", [&] {
    if (!faults.is_raised() && faults.ended() == FaultState::kRunning)
      faults.raise(faults.make(error.code, -1, error.text));
    return ok_status();
  }).ok();
  slots_.end();
}

Status HostProxy::enqueue(GpuStream stream, bool captured, HostedCall call, const CopyStep& copy) {
  const CallSteps of_collective(call.record, size_, staging_.shape());
  const auto steps = static_cast<std::uint32_t>(call.steps(of_collective));
  if (captured) proxy_.expect_replays();
  RONDO_TRY(const std::uint32_t number, slots_.place(std::move(call), captured));
  struct Enqueuer {
    const PinnedStaging& staging;
    const GpuStream stream;
    const CopyStep& copy;
    Status write(std::uint32_t& word, std::uint32_t value) const {
      return staging.write(stream, word, value);
    }
    Status wait(std::uint32_t& word, std::uint32_t at_least) const {
      return staging.await(stream, word, at_least);
    }
  };
  RONDO_CHECK_OK(
      enqueue_steps(staging_.words(), number + 1, steps, Enqueuer{staging_, stream, copy}));
  proxy_.ring();
  return ok_status();
}

// Between the user's buffers and pinned memory.
DirectLaunches HostProxy::copies_of_step(GpuStream stream, bool in) const {
  DirectLaunches copies(1, stream);
  copies.copy_by_driver(!in && shares_gpu_ ? GpuCopy::kHostToDevice : GpuCopy::kAny);
  return copies;
}

double HostProxy::predicted_ns(const CallRecord& record) const {
  return rondo::predicted_ns(state_.facts, record);
}

Status HostProxy::run_elsewhere(const CallRecord& record, std::span<const Buffers> all,
                                GpuStream stream, bool captured, Mismatch* /*mismatch*/) {
  const Buffers& buffers = all.front();
  const CallSteps steps(record, size_, staging_.shape());
  HostedCall hosted;
  hosted.record = record;
  hosted.scalar = buffers.late_scalar ? 0 : buffers.scalar;
  hosted.late_scalar = buffers.late_scalar;
  const auto copy = [&](std::uint64_t number, bool in) -> Status {
    if (number == 0 && in && buffers.late_scalar)
      RONDO_CHECK_OK(check(
          gpu_api()->copy(&staging_.words().scalar, reinterpret_cast<const void*>(buffers.scalar),
                          size_of(record.type), GpuCopy::kAny, stream),
          "cudaMemcpyAsync"));
    if (!(in ? steps.sends(rank_) : steps.receives(rank_, steps[number]))) return ok_status();
    DirectLaunches copies = copies_of_step(stream, in);
    std::byte* const staged = in ? staging_.input(number) : staging_.output(number);
    RONDO_CHECK_OK(steps.copy(number, in, buffers, staged, &copies));
    return copies.flush();
  };
  return enqueue(stream, captured, std::move(hosted), copy);
}

Result<TeamEdges::Enqueue> HostProxy::prepare(std::span<const ProcessMessage> messages,
                                              bool captured, Mismatch* /*mismatch*/) {
  HostedCall hosted;
  const std::uint64_t maximum = staging_.piece_bytes(size_);
  const auto add = [&](const CallRecord& record, int peer, bool sends, const void* buffer) {
    MessagePieces& pieces = hosted.pieces_of(peer, sends);
    auto* const user = static_cast<std::byte*>(const_cast<void*>(buffer));
    const std::uint64_t width = size_of(record.type), count = record.count;
    for (std::uint64_t at = 0; at == 0 || at < count; at += maximum / width)
      pieces.pieces.push_back(
          {std::min(maximum / width, count - at), record.type, user + at * width});
  };
  for (const ProcessMessage& one : messages) {
    if (one.from == rank_) add(one.record, one.to, true, one.send);
    if (one.to == rank_) add(one.record, one.from, false, one.receive);
  }
  return Enqueue([this, captured, maximum, hosted = std::move(hosted)](GpuStream stream) {
    const auto copy = [&](std::uint64_t round, bool in) -> Status {
      DirectLaunches copies = copies_of_step(stream, in);
      for (const MessagePieces& one : hosted.messages) {
        if (one.sends != in || round >= one.pieces.size()) continue;
        const MessagePieces::Piece& piece = one.pieces[round];
        if (piece.count == 0) continue;
        std::byte* const staged = (in ? staging_.input(round) : staging_.output(round)) +
                                  static_cast<std::uint64_t>(one.peer) * maximum;
        RONDO_CHECK_OK(in ? copies.copy(piece.at, staged, piece.bytes())
                          : copies.copy(staged, piece.at, piece.bytes()));
      }
      return copies.flush();
    };
    return enqueue(stream, captured, hosted, copy);
  });
}

Status HostProxy::post_one_sided(std::span<const Call> calls, const NameToNetwork& name) {
  HostedCall hosted;
  std::vector<GpuStream> streams;
  OneSidedRounds rounds(staging_, size_);
  for (const Call& call : calls) {
    streams.push_back(call.stream);
    if (call.record.collective == Collective::kWaitSignal) {
      Call& one = hosted.waits.emplace_back();
      one.record = {call.record.count, Collective::kWaitSignal};
      one.peer = call.peer;
      one.signal = call.signal;
    } else {
      rounds.add(call, name(call));
    }
  }
  hosted.rounds = rounds.calls();
  const auto copy = [&](std::uint64_t step, bool in) -> Status {
    if (!in) return ok_status();
    DirectLaunches launches(1, streams.front());
    launches.copy_by_driver();
    for (const OneSidedRounds::Copy& one : rounds.copies(step))
      RONDO_CHECK_OK(launches.copy(one.from, one.to, one.bytes));
    return launches.flush();
  };
  RONDO_TRY(const GpuCaptureInfo capture, capture_of(streams.front()));
  return order_.serve(streams, capture, [&] {
    return enqueue(streams.front(), capturing(capture), std::move(hosted), copy);
  });
}

}  // namespace rondo::gpu
