// Calls of communicators on CUDA devices: addresses checked, posted to the team, waited for on the
// host until they are launched.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/device_windows.h"
#include "collectives/gpu/pointers.h"
#include "collectives/gpu/staging/hosted_rank.h"
#include "collectives/watchdog/fault_texts.h"
#include "transport/cuda/device.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
using gpu::DeviceCall;

// How often a rank that waits for others looks at faults, aborts and deadlines.
constexpr int kLookMicroseconds = 2000;
// After this long it says whom it waits for, even if the limit is far away.
constexpr double kWarnSeconds = 60;

// The call as its device sees it; buffers are checked here, before anything is enqueued.
Result<DeviceCall> resolve(const Call& call, const void* late_scalar, GpuStream stream, int rank,
                           const CommOptions& options) {
  const int device = options.device;
  DeviceCall resolved;
  resolved.fewest_ctas =
      call.limits.fewest_ctas > 0 ? call.limits.fewest_ctas : options.fewest_ctas;
  resolved.most_ctas = call.limits.most_ctas > 0 ? call.limits.most_ctas : options.most_ctas;
  resolved.copy_engines = call.limits.mover == CallLimits::Mover::kUnsaid
                              ? options.copy_engines
                              : call.limits.mover == CallLimits::Mover::kCopyEngines;
  resolved.record = call.record;
  resolved.peer = call.peer;
  resolved.signal = call.signal;
  resolved.stream = stream;
  const Collective which = call.record.collective;
  if (gpu::uses_send(call, rank)) {
    RONDO_TRY(resolved.side.send, gpu::device_address(call.send, device, which, "sendbuff"));
  }
  if (gpu::uses_receive(call, rank)) {
    RONDO_TRY(resolved.side.receive, gpu::device_address(call.receive, device, which, "recvbuff"));
  }
  if (call.record.op == RedOp::kPreMulSum) {
    resolved.side.late_scalar = late_scalar != nullptr;
    if (late_scalar != nullptr) {
      RONDO_TRY(const void* at, gpu::device_address(late_scalar, device, which, "scalar"));
      resolved.side.scalar = reinterpret_cast<std::uintptr_t>(at);
    } else {
      std::memcpy(&resolved.side.scalar, call.scalar.data(), sizeof(resolved.side.scalar));
    }
  }
  return resolved;
}

Result<std::vector<DeviceCall>> resolve_all(const Communicator::GpuWork& work, int rank,
                                            const CommOptions& options) {
  std::vector<DeviceCall> calls;
  for (std::size_t i = 0; i < work.calls.size(); ++i) {
    const void* late_scalar = work.late_scalars.empty() ? nullptr : work.late_scalars[i];
    RONDO_TRY(const DeviceCall call,
              resolve(work.calls[i], late_scalar, work.streams[i], rank, options));
    calls.push_back(call);
  }
  return calls;
}

}  // namespace

bool CommunicatorState::adopt_kernel_fault() {
  if (hosted && hosted->kernel_gave_up()) return !adopted_fault().ok();
  if (!team) return false;
  const auto found = team->kernel_fault(rank);
  if (!found) return false;
  Fault fault = make_fault(Status::kTimeout, found->peer, found->text);
  fault.own = found->call;
  raise(std::move(fault));
  return true;
}

Done CommunicatorState::post_on_device(std::span<const DeviceCall> calls) {
  if (faulted.load() || adopt_kernel_fault()) return adopted_fault();
  gpu::Mismatch mismatch;
  Done posted = hosted ? hosted->post(calls) : team->post(rank, calls, &mismatch);
  if (posted.ok()) return done();
  return fault_of_post(posted, mismatch);
}

// After the rank's collectives are on their streams: a wait for a signal must not stand before the
// kernel of another rank's call.
Done CommunicatorState::post_one_sided(std::span<const DeviceCall> calls) {
  if (calls.empty()) return done();
  if (faulted.load() || adopt_kernel_fault()) return adopted_fault();
  if (!window_rank)
    return fail(Status::kInvalidUsage,
                "{} on CUDA device {} : register a window first (ncclCommWindowRegister): ranks on "
                "GPUs open signals with it",
                rondo::name(calls[0].record.collective), options.device);
  const Done posted = window_rank->post_one_sided(calls);
  return posted.ok() ? done() : fault_of_post(posted, {});
}

Done CommunicatorState::fault_of_post(const Done& posted, const gpu::Mismatch& mismatch) {
  if (ended.load() != kRunning) return why_it_ended();
  if (faulted.load() || adopt_peer_fault()) return adopted_fault();
  Fault found = make_fault(posted.status(), mismatch.peer, posted.error().text);
  found.own = mismatch.own;
  found.other = mismatch.other;
  raise(std::move(found));
  return posted;
}

Done CommunicatorState::wait_on_device() {
  if (hosted) return done();
  const auto begin = Clock::now();
  bool warned = false;
  while (!team->launched(rank, kLookMicroseconds)) {
    if (const int how = ended.load(); how != kRunning) {
      Done why = why_it_ended();
      team->fail_all(why);
      return why;
    }
    if (faulted.load(std::memory_order_acquire) || adopt_peer_fault()) return adopted_fault();
    if (served_standing)
      if (Done standing = served_standing(); !standing.ok()) {
        team->fail_all(standing);
        return standing;
      }
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    const double limit = timeout_seconds.load();
    if (waited < limit && (warned || waited < kWarnSeconds)) continue;
    const std::vector<int> missing = team->missing(rank);
    if (waited >= limit) {
      raise(make_fault(Status::kTimeout, missing.empty() ? -1 : missing.front(),
                       fault_texts::timed_out_meeting(rank, limit, missing)));
      team->fail_all(adopted_fault());
      return adopted_fault();
    }
    warned = true;
    RONDO_WARN("rank {} has waited {:.0f} s for {} to make the same call; it goes on waiting", rank,
               waited, fault_texts::list_of(missing));
  }
  if (!team->failure().ok()) {
    if (faulted.load() || adopt_peer_fault()) return adopted_fault();
    if (Done late = team->late_failure(rank); !late.ok()) {
      raise(make_fault(late.status(), -1, late.error().text));
      return late;
    }
    return team->failure();
  }
  return team->join_streams(rank);
}

Done Communicator::enqueue_together(std::span<const GpuWork> works) {
  // Everything is checked before anything is posted.
  std::vector<std::vector<DeviceCall>> resolved, one_sided;
  for (const GpuWork& work : works) {
    CommunicatorState& state = *work.communicator->state_;
    const gpu::DeviceScope scope(state.options.device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_TRY(auto calls, resolve_all(work, state.rank, state.options));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call& call = work.calls[i];
      if (call.window < 0 || call.record.count == 0) continue;
      RONDO_TRY(std::byte* const window, state.device_windows->address(call.window, call.peer));
      calls[i].target = window + call.offset;
    }
    const auto own = std::stable_partition(calls.begin(), calls.end(), [](const DeviceCall& call) {
      return call.record.collective < Collective::kPut;
    });
    one_sided.emplace_back(own, calls.end());
    calls.erase(own, calls.end());
    resolved.push_back(std::move(calls));
  }
  Done result;
  std::size_t entered = 0, posted = 0;
  while (result.ok() && entered < works.size()) {
    result = works[entered].communicator->state_->enter();
    if (result.ok()) ++entered;
  }
  while (result.ok() && posted < works.size()) {
    CommunicatorState& state = *works[posted].communicator->state_;
    const gpu::DeviceScope scope(state.options.device);
    result = scope.entered().ok() ? state.post_on_device(resolved[posted]) : scope.entered();
    if (result.ok()) ++posted;
  }
  for (std::size_t i = 0; i < posted; ++i) {
    CommunicatorState& state = *works[i].communicator->state_;
    const gpu::DeviceScope scope(state.options.device);
    const Done waited = scope.entered().ok() ? state.wait_on_device() : scope.entered();
    if (result.ok()) result = waited;
  }
  for (std::size_t i = 0; i < posted && result.ok(); ++i) {
    CommunicatorState& state = *works[i].communicator->state_;
    const gpu::DeviceScope scope(state.options.device);
    result = scope.entered().ok() ? state.post_one_sided(one_sided[i]) : scope.entered();
  }
  for (std::size_t i = 0; i < entered; ++i) works[i].communicator->state_->leave();
  return result;
}

int Communicator::device() const { return state_->options.device; }

}  // namespace rondo
