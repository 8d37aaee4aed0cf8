#include "collectives/gpu/rank/enqueue_together.h"

#include <algorithm>
#include <optional>

#include "collectives/gpu/calls/pointers.h"
#include "collectives/gpu/rank/device_rank.h"
#include "collectives/host/rank_state.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {
namespace {

// The call with the addresses that its device uses. Checks the buffers.
Result<Call> resolve(const Call& call, RankState& state, BufferAddresses& addresses) {
  const CommOptions& options = state.options;
  const int rank = state.members.rank;
  const Collective which = call.record.collective;
  Call resolved = call;
  resolved.send = nullptr;
  resolved.receive = nullptr;
  CallLimits& limits = resolved.limits;
  if (limits.min_ctas == 0) limits.min_ctas = options.min_ctas;
  if (limits.max_ctas == 0) limits.max_ctas = options.max_ctas;
  if (limits.mover == CallLimits::Mover::kUnset && options.copy_engines)
    limits.mover = CallLimits::Mover::kCopyEngines;
  if (uses_send(call, rank)) {
    RONDO_TRY(resolved.send, addresses.of(call.send, which, "sendbuff", &resolved.own_access));
  }
  if (uses_receive(call, rank) && call.receive == call.send && resolved.send != nullptr) {
    resolved.receive = const_cast<void*>(resolved.send);
  } else if (uses_receive(call, rank)) {
    RONDO_TRY(resolved.receive,
              addresses.of(call.receive, which, "recvbuff", &resolved.own_access));
  }
  DeviceRank::of(state).look_for_windows(&resolved);
  if (call.window >= 0 && call.record.count > 0)
    RONDO_CHECK_OK(DeviceRank::of(state).find_window_of(&resolved));
  if (call.late_scalar != nullptr) {
    RONDO_TRY(resolved.late_scalar,
              addresses.of(call.late_scalar, which, "scalar", &resolved.own_access));
  }
  return resolved;
}

// An in-place collective of one rank changes nothing, so no stream has to wait for it.
bool leaves_all_as_it_is(const Call& call) {
  const Collective which = call.record.collective;
  const bool scales = reduces(which) && call.record.op == RedOp::kPreMulSum;
  return which <= Collective::kBarrier && !scales && call.send == call.receive;
}

// Makes the rank's device current if something depends on it: a call on a default stream, a
// one-sided call, an engine that requires it, or a thread without a context. Otherwise CUDA uses
// the streams' devices.
class RankScope {
 public:
  explicit RankScope(const RankWork& work) {
    const DeviceRank& rank = DeviceRank::of(work.state);
    const auto depends = [](const Call& call) {
      return is_default_stream(call.stream) || is_one_sided(call);
    };
    if (!DeviceScope::has_context() || rank.needs_device() ||
        std::any_of(work.calls.begin(), work.calls.end(), depends))
      scope_.emplace(work.state.options.device);
  }
  Status entered() const { return scope_ ? scope_->entered() : ok_status(); }

 private:
  std::optional<DeviceScope> scope_;
};

}  // namespace

Status enqueue_together(std::span<const RankWork> works) {
  if (works.empty()) return ok_status();
  const DeviceScope outermost;
  RONDO_CHECK_OK(outermost.entered());
  std::vector<std::vector<Call>> resolved, one_sided;
  for (const RankWork& work : works) {
    RankState& state = work.state;
    const RankScope scope(work);
    RONDO_CHECK_OK(scope.entered());
    BufferAddresses addresses(state.options.device);
    std::vector<Call> calls;
    calls.reserve(work.calls.size());
    for (const Call& call : work.calls) {
      RONDO_TRY(Call seen, resolve(call, state, addresses));
      if (state.members.size == 1 && leaves_all_as_it_is(seen)) continue;
      calls.push_back(std::move(seen));
    }
    const auto own = std::stable_partition(calls.begin(), calls.end(),
                                           [](const Call& call) { return !is_one_sided(call); });
    one_sided.emplace_back(own, calls.end());
    calls.erase(own, calls.end());
    resolved.push_back(std::move(calls));
  }
  Status result;
  const EnqueueFlag::Scope enqueues(DeviceRank::of(works.front().state).enqueue_flag());
  std::size_t entered = 0, posted = 0;
  while (result.ok() && entered < works.size()) {
    result = works[entered].state.enter();
    if (result.ok()) ++entered;
  }
  while (result.ok() && posted < works.size()) {
    const RankScope scope(works[posted]);
    result = scope.entered();
    if (result.ok()) result = DeviceRank::of(works[posted].state).post(resolved[posted]);
    if (result.ok()) ++posted;
  }
  for (std::size_t i = 0; i < posted; ++i) {
    const RankScope scope(works[i]);
    Status waited = scope.entered();
    if (waited.ok()) waited = DeviceRank::of(works[i].state).wait_until_enqueued();
    if (result.ok()) result = waited;
  }
  for (std::size_t i = 0; i < posted && result.ok(); ++i) {
    if (one_sided[i].empty()) continue;
    RankState& state = works[i].state;
    const DeviceScope scope(state.options.device);
    result = scope.entered();
    if (result.ok()) result = DeviceRank::of(state).post_one_sided(one_sided[i]);
  }
  for (std::size_t i = 0; i < entered; ++i) works[i].state.leave();
  return result;
}

}  // namespace rondo::gpu
