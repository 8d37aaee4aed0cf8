// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <optional>

#include "collectives/gpu/agree/control_segment.h"
#include "collectives/gpu/calls/pointers.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/rank/device_rank.h"
#include "collectives/gpu/rank/entry_points.h"
#include "collectives/host/rank_state.h"
#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {
namespace {

// Gives the call the addresses that its device uses. Checks the buffers.
Status resolve(RankState& state, BufferAddresses& addresses, Call& call) {
  const CommOptions& options = state.options;
  const int rank = state.members.rank;
  const Collective which = call.record.collective;
  CallLimits& limits = call.limits;
  if (limits.min_ctas == 0) limits.min_ctas = options.min_ctas;
  if (limits.max_ctas == 0) limits.max_ctas = options.max_ctas;
  if (limits.mover == CallLimits::Mover::kUnset && options.copy_engines)
    limits.mover = CallLimits::Mover::kCopyEngines;
  const Buffers given{call.send, call.receive};
  const bool in_place = call.receive == call.send;
  if (uses_send(call, rank)) {
    RONDO_TRY(call.send, addresses.of(call.send, which, "sendbuff"));
  } else {
    call.send = nullptr;
  }
  if (uses_receive(call, rank) && in_place && call.send != nullptr) {
    call.receive = const_cast<void*>(call.send);
  } else if (uses_receive(call, rank)) {
    RONDO_TRY(call.receive, addresses.of(call.receive, which, "recvbuff"));
  } else {
    call.receive = nullptr;
  }
  DeviceRank::of(state).look_for_windows(&call, given);
  if (call.window >= 0 && call.record.count > 0)
    RONDO_CHECK_OK(DeviceRank::of(state).find_window_of(&call));
  if (call.late_scalar != nullptr) {
    RONDO_TRY(call.late_scalar, addresses.of(call.late_scalar, which, "scalar"));
  }
  return ok_status();
}

// What one rank posts. If there are several rounds, collectives come first.
struct Part {
  RankState& state;
  std::vector<Call> calls = {}, one_sided = {};
  std::size_t collectives = 0;

  std::span<const Call> round(std::size_t number, std::size_t rounds) const {
    const std::size_t begin = std::min(number * kCallsAhead, collectives);
    const std::size_t end =
        number + 1 == rounds ? calls.size() : std::min(begin + kCallsAhead, collectives);
    return std::span(calls).subspan(begin, end - begin);
  }
};

// A rank that is kCallsAhead collectives ahead of another one waits for it on the host, so a thread
// with several ranks posts no more than that of one rank before those of the next. The engines
// launch messages after the collectives of their group.
std::size_t cut_into_rounds(std::span<Part> parts) {
  std::size_t rounds = 1;
  for (Part& part : parts) {
    const auto is_collective = [](const Call& call) { return !is_point_to_point(call); };
    part.collectives = std::count_if(part.calls.begin(), part.calls.end(), is_collective);
    if (parts.size() == 1 || part.collectives <= kCallsAhead) continue;
    std::stable_partition(part.calls.begin(), part.calls.end(), is_collective);
    rounds = std::max(rounds, (part.collectives + kCallsAhead - 1) / kCallsAhead);
  }
  return rounds;
}

// Whether a launch blocks until its kernel has finished, and so until ranks that this thread posts
// for later have launched theirs. Launches into graphs do not block.
Result<bool> need_threads(std::span<const Part> parts) {
  if (parts.size() == 1 || !blocking_launches()) return false;
  for (const Part& part : parts)
    for (const Call& call : part.calls) {
      RONDO_TRY(const GpuCaptureInfo capture, capture_of(call.stream));
      if (capturing(capture)) return false;
    }
  return true;
}

// Of one rank: the collective copies `send` to `receive`.
bool is_a_copy(const Call& call) {
  const Collective which = call.record.collective;
  const bool scales = reduces(which) && call.record.op == RedOp::kPreMulSum;
  return which <= Collective::kBarrier && !scales;
}

// An in-place collective of one rank changes nothing, so no stream has to wait for it.
bool leaves_all_as_it_is(const Call& call) {
  return is_a_copy(call) && (call.send == call.receive || call.record.count == 0);
}

// Makes the rank's device current if something depends on it: a call on a default stream, a
// one-sided call, the launches of an engine that requires it, or a thread without a context.
// Otherwise CUDA uses the streams' devices.
class RankScope {
 public:
  RankScope(const RankState& state, std::span<const Call> calls, bool launches) {
    const bool by_engine = launches && DeviceRank::of(state).needs_device();
    const auto depends = [](const Call& call) {
      return is_default_stream(call.stream) || is_one_sided(call);
    };
    if (!DeviceScope::has_context() || by_engine ||
        std::any_of(calls.begin(), calls.end(), depends))
      scope_.emplace(state.options.device);
  }
  Status entered() const { return scope_ ? scope_->entered() : ok_status(); }

 private:
  std::optional<DeviceScope> scope_;
};

// A group of a rank that is alone in its communicator, with at most one copy to make: the driver's
// copy is all that it needs. CUDA knows where the buffers are, and nothing has to be ordered, so
// neither they nor the stream are queried. nullopt: another group.
std::optional<Status> enqueue_alone(const RankWork& work) {
  RankState& state = work.state;
  if (state.members.size > 1) return std::nullopt;
  const Call* copy = nullptr;
  for (const Call& call : work.calls) {
    if (leaves_all_as_it_is(call)) continue;
    if (copy != nullptr || !is_a_copy(call)) return std::nullopt;
    copy = &call;
  }
  Status done = state.enter();
  if (!done.ok()) return done;
  for (const Call& call : work.calls) state.count_calls(call.record.collective);
  if (copy != nullptr) {
    const RankScope scope(state, {copy, 1}, false);
    done = scope.entered();
    if (done.ok()) done = DeviceRank::of(state).copy_alone(*copy);
  }
  state.leave();
  return done;
}

Status fill(Part& part, std::span<const Call> calls) {
  RankState& state = part.state;
  const RankScope scope(state, calls, false);
  RONDO_CHECK_OK(scope.entered());
  BufferAddresses addresses(state.options.device);
  part.calls.reserve(calls.size());
  for (const Call& call : calls) {
    Call& seen = part.calls.emplace_back(call);
    RONDO_CHECK_OK(resolve(state, addresses, seen));
    state.count_calls(seen.record.collective);
    if (state.members.size == 1 && leaves_all_as_it_is(seen)) part.calls.pop_back();
  }
  const auto own = std::stable_partition(part.calls.begin(), part.calls.end(),
                                         [](const Call& call) { return !is_one_sided(call); });
  part.one_sided.assign(own, part.calls.end());
  part.calls.erase(own, part.calls.end());
  return ok_status();
}

// The ranks of a communicator next to each other, so that all GPUs of this process get the kernels
// of several communicators in the same order.
Result<std::vector<Part>> make_parts(std::span<const RankWork> works) {
  std::vector<Part> parts;
  parts.reserve(works.size());
  for (std::size_t first = 0; first < works.size(); ++first) {
    const auto is_beside = [group = works[first].state.members.group.get()](const RankWork& other) {
      return other.state.members.group.get() == group;
    };
    if (std::any_of(works.begin(), works.begin() + first, is_beside)) continue;
    for (const RankWork& work : works.subspan(first)) {
      if (!is_beside(work)) continue;
      RONDO_CHECK_OK(fill(parts.emplace_back(Part{work.state}), work.calls));
    }
  }
  return parts;
}

Status post(const Part& part, std::span<const Call> calls) {
  const RankScope scope(part.state, calls, true);
  RONDO_CHECK_OK(scope.entered());
  return DeviceRank::of(part.state).post(calls);
}

// Its handle names another stream in another thread, so the work on it is done before and after.
Status finish_per_thread_stream(const Part& part, std::span<const Call> calls) {
  const auto is_on_it = [](const Call& call) { return call.stream == kPerThreadStream; };
  if (std::none_of(calls.begin(), calls.end(), is_on_it)) return ok_status();
  const DeviceScope scope(part.state.options.device);
  RONDO_CHECK_OK(scope.entered());
  return check(gpu_api()->synchronize_stream(kPerThreadStream), "cudaStreamSynchronize");
}

// Of one communicator after another, so that all GPUs get them in the same order.
Status post_by_threads(std::span<const Part> parts, std::size_t round, std::size_t rounds) {
  for (const Part& part : parts) RONDO_CHECK_OK(finish_per_thread_stream(part, part.calls));
  while (!parts.empty()) {
    const auto* const group = parts.front().state.members.group.get();
    std::vector<const Part*> beside;
    for (const Part& part : parts)
      if (part.state.members.group.get() == group) beside.push_back(&part);
    RONDO_CHECK_OK(launch_at_once(beside, [&](const Part* part) -> Status {
      const std::span<const Call> calls = part->round(round, rounds);
      RONDO_CHECK_OK(post(*part, calls));
      return finish_per_thread_stream(*part, calls);
    }));
    parts = parts.subspan(beside.size());
  }
  return ok_status();
}

// Posts a round of all ranks; then each waits until its calls are on its streams.
Status run_round(std::span<const Part> parts, std::size_t round, std::size_t rounds, bool threads) {
  std::unique_lock<std::mutex> turns;
  if (parts.size() > 1) turns = StreamOrder::turns_of_group();
  Status result = threads ? post_by_threads(parts, round, rounds) : ok_status();
  std::size_t posted = threads && result.ok() ? parts.size() : 0;
  while (result.ok() && posted < parts.size()) {
    result = post(parts[posted], parts[posted].round(round, rounds));
    if (result.ok()) ++posted;
  }
  if (turns.owns_lock()) turns.unlock();
  for (const Part& part : parts.first(posted)) {
    const RankScope scope(part.state, part.calls, false);
    Status waited = scope.entered();
    if (waited.ok()) waited = DeviceRank::of(part.state).wait_until_enqueued();
    if (result.ok()) result = waited;
  }
  return result;
}

}  // namespace

Status enqueue_together(std::span<const RankWork> works) {
  if (works.empty()) return ok_status();
  if (works.size() == 1)
    if (std::optional<Status> done = enqueue_alone(works.front())) return *std::move(done);
  const DeviceScope outermost;
  RONDO_CHECK_OK(outermost.entered());
  RONDO_TRY(std::vector<Part> parts, make_parts(works));
  const std::size_t rounds = cut_into_rounds(parts);
  RONDO_TRY(const bool threads, need_threads(parts));
  Status result;
  const EnqueueFlag::Scope enqueues(DeviceRank::of(parts.front().state).enqueue_flag());
  std::size_t entered = 0;
  while (result.ok() && entered < parts.size()) {
    result = parts[entered].state.enter();
    if (result.ok()) ++entered;
  }
  for (std::size_t round = 0; round < rounds && result.ok(); ++round)
    result = run_round(parts, round, rounds, threads);
  for (const Part& part : parts) {
    if (!result.ok()) break;
    if (part.one_sided.empty()) continue;
    const DeviceScope scope(part.state.options.device);
    result = scope.entered();
    if (result.ok()) result = DeviceRank::of(part.state).post_one_sided(part.one_sided);
  }
  for (const Part& part : std::span(parts).first(entered)) part.state.leave();
  return result;
}

}  // namespace rondo::gpu
