#include "collectives/gpu/enqueue_together.h"

#include <algorithm>

#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/device_rank.h"
#include "collectives/gpu/pointers.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// The call as its device sees it; buffers are checked here, before anything is enqueued.
Result<Call> resolve(const Call& call, CommunicatorState& state) {
  const CommOptions& options = state.options;
  const int device = options.device, rank = state.members.rank;
  const Collective which = call.record.collective;
  Call resolved = call;
  resolved.send = nullptr;
  resolved.receive = nullptr;
  CallLimits& limits = resolved.limits;
  if (limits.fewest_ctas == 0) limits.fewest_ctas = options.fewest_ctas;
  if (limits.most_ctas == 0) limits.most_ctas = options.most_ctas;
  if (limits.mover == CallLimits::Mover::kUnsaid && options.copy_engines)
    limits.mover = CallLimits::Mover::kCopyEngines;
  if (uses_send(call, rank)) {
    RONDO_TRY(resolved.send,
              device_address(call.send, device, which, "sendbuff", &resolved.own_access));
  }
  if (uses_receive(call, rank) && call.receive == call.send && resolved.send != nullptr) {
    resolved.receive = const_cast<void*>(resolved.send);
  } else if (uses_receive(call, rank)) {
    RONDO_TRY(resolved.receive,
              device_address(call.receive, device, which, "recvbuff", &resolved.own_access));
  }
  state.device->look_for_windows(&resolved);
  if (call.window >= 0 && call.record.count > 0) {
    RONDO_TRY(std::byte* const window, state.device->window_address(call.window, call.peer));
    resolved.receive = window + call.offset;
  }
  if (call.late_scalar != nullptr) {
    RONDO_TRY(resolved.late_scalar,
              device_address(call.late_scalar, device, which, "scalar", &resolved.own_access));
  }
  return resolved;
}

}  // namespace

Done enqueue_together(std::span<const RankWork> works) {
  const DeviceScope outermost;
  RONDO_CHECK_OK(outermost.entered());
  // Everything is checked before anything is posted.
  std::vector<std::vector<Call>> resolved, one_sided;
  for (const RankWork& work : works) {
    CommunicatorState& state = work.state;
    const DeviceScope scope(state.options.device);
    RONDO_CHECK_OK(scope.entered());
    std::vector<Call> calls;
    calls.reserve(work.calls.size());
    for (const Call& call : work.calls) {
      RONDO_TRY(Call seen, resolve(call, state));
      calls.push_back(std::move(seen));
    }
    const auto own = std::stable_partition(calls.begin(), calls.end(),
                                           [](const Call& call) { return !is_one_sided(call); });
    one_sided.emplace_back(own, calls.end());
    calls.erase(own, calls.end());
    resolved.push_back(std::move(calls));
  }
  Done result;
  std::size_t entered = 0, posted = 0;
  while (result.ok() && entered < works.size()) {
    result = works[entered].state.enter();
    if (result.ok()) ++entered;
  }
  while (result.ok() && posted < works.size()) {
    CommunicatorState& state = works[posted].state;
    const DeviceScope scope(state.options.device);
    result = scope.entered().ok() ? state.device->post(resolved[posted]) : scope.entered();
    if (result.ok()) ++posted;
  }
  for (std::size_t i = 0; i < posted; ++i) {
    CommunicatorState& state = works[i].state;
    const DeviceScope scope(state.options.device);
    const Done waited =
        scope.entered().ok() ? state.device->wait_until_enqueued() : scope.entered();
    if (result.ok()) result = waited;
  }
  for (std::size_t i = 0; i < posted && result.ok(); ++i) {
    if (one_sided[i].empty()) continue;
    CommunicatorState& state = works[i].state;
    const DeviceScope scope(state.options.device);
    result = scope.entered().ok() ? state.device->post_one_sided(one_sided[i]) : scope.entered();
  }
  for (std::size_t i = 0; i < entered; ++i) works[i].state.leave();
  return result;
}

}  // namespace rondo::gpu
