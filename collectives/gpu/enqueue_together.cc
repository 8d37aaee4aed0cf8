#include "collectives/gpu/enqueue_together.h"

#include <algorithm>
#include <cstring>

#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/device_rank.h"
#include "collectives/gpu/pointers.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

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
  if (uses_send(call, rank)) {
    RONDO_TRY(resolved.buffers.send, device_address(call.send, device, which, "sendbuff"));
  }
  if (uses_receive(call, rank)) {
    RONDO_TRY(resolved.buffers.receive, device_address(call.receive, device, which, "recvbuff"));
  }
  if (call.record.op == RedOp::kPreMulSum) {
    resolved.buffers.late_scalar = late_scalar != nullptr;
    if (late_scalar != nullptr) {
      RONDO_TRY(const void* at, device_address(late_scalar, device, which, "scalar"));
      resolved.buffers.scalar = reinterpret_cast<std::uintptr_t>(at);
    } else {
      std::memcpy(&resolved.buffers.scalar, call.scalar.data(), sizeof(resolved.buffers.scalar));
    }
  }
  return resolved;
}

Result<std::vector<DeviceCall>> resolve_all(const RankWork& work) {
  std::vector<DeviceCall> calls;
  for (std::size_t i = 0; i < work.calls.size(); ++i) {
    const void* late_scalar = work.late_scalars.empty() ? nullptr : work.late_scalars[i];
    RONDO_TRY(const DeviceCall call, resolve(work.calls[i], late_scalar, work.streams[i],
                                             work.state.members.rank, work.state.options));
    calls.push_back(call);
  }
  return calls;
}

}  // namespace

Done enqueue_together(std::span<const RankWork> works) {
  // Everything is checked before anything is posted.
  std::vector<std::vector<DeviceCall>> resolved, one_sided;
  for (const RankWork& work : works) {
    CommunicatorState& state = work.state;
    const DeviceScope scope(state.options.device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_TRY(auto calls, resolve_all(work));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call& call = work.calls[i];
      if (call.window < 0 || call.record.count == 0) continue;
      RONDO_TRY(std::byte* const window, state.device->window_address(call.window, call.peer));
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
    CommunicatorState& state = works[i].state;
    const DeviceScope scope(state.options.device);
    result = scope.entered().ok() ? state.device->post_one_sided(one_sided[i]) : scope.entered();
  }
  for (std::size_t i = 0; i < entered; ++i) works[i].state.leave();
  return result;
}

}  // namespace rondo::gpu
