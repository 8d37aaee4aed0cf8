// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <optional>
#include <type_traits>

#include "collectives/gpu/agree/control_segment.h"
#include "collectives/gpu/calls/pointers.h"
#include "collectives/gpu/order/stream_order.h"
#include "collectives/gpu/rank/device_rank.h"
#include "collectives/gpu/rank/entry_points.h"
#include "collectives/host/rank_state.h"
#include "kernels/cuda/counted_message_args.h"
#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {
namespace {

Status resolve_counts(BufferAddresses& addresses, const Buffers& given, Call& call) {
  cuda::DeviceCounts& counts = *call.counts;
  const auto resolve_one = [&](auto*& at, const char* name) -> Status {
    if (at == nullptr) return ok_status();
    RONDO_TRY(void* const found, addresses.of(at, call.record.collective, name));
    at = static_cast<std::remove_reference_t<decltype(at)>>(found);
    return ok_status();
  };
  RONDO_CHECK_OK(resolve_one(counts.sent, "sendcounts"));
  RONDO_CHECK_OK(resolve_one(counts.sent_at, "sdispls"));
  RONDO_CHECK_OK(resolve_one(counts.expected, "recvcounts"));
  RONDO_CHECK_OK(resolve_one(counts.received_at, "rdispls"));
  RONDO_CHECK_OK(resolve_one(counts.received, "received"));
  counts.send = static_cast<const std::byte*>(call.send);
  counts.receive = static_cast<std::byte*>(call.receive);
  const std::size_t element = size_of(call.record.type);
  RONDO_TRY(const std::size_t send_room, addresses.room_at(given.send));
  RONDO_TRY(const std::size_t receive_room, addresses.room_at(given.receive));
  counts.send_room = send_room / element;
  counts.receive_room = receive_room / element;
  return ok_status();
}

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
  if (call.counts) RONDO_CHECK_OK(resolve_counts(addresses, given, call));
  if (call.late_scalar != nullptr) {
    RONDO_TRY(call.late_scalar, addresses.of(call.late_scalar, which, "scalar"));
  }
  return ok_status();
}

// What a rank posts in one of some rounds: the last one has its messages.
std::span<Call> part_of_round(const RankWork& work, std::size_t number, std::size_t rounds) {
  const std::size_t begin = std::min(number * kCallsAhead, work.collectives);
  const std::size_t end =
      number + 1 == rounds ? work.calls.size() : std::min(begin + kCallsAhead, work.collectives);
  return work.calls.subspan(begin, end - begin);
}

// A rank that is kCallsAhead collectives ahead of another one waits for it on the host, so a thread
// with several ranks posts no more than that of one rank before those of the next. The engines
// launch messages after the collectives of their group.
std::size_t cut_into_rounds(std::span<RankWork> works) {
  std::size_t rounds = 1;
  for (RankWork& work : works) {
    const auto is_collective = [](const Call& call) { return !is_point_to_point(call); };
    work.collectives = std::count_if(work.calls.begin(), work.calls.end(), is_collective);
    if (works.size() == 1 || work.collectives <= kCallsAhead) continue;
    std::stable_partition(work.calls.begin(), work.calls.end(), is_collective);
    rounds = std::max(rounds, (work.collectives + kCallsAhead - 1) / kCallsAhead);
  }
  return rounds;
}

// Whether a launch blocks until its kernel has finished, and so until ranks that this thread posts
// for later have launched theirs. Launches into graphs do not block.
Result<bool> need_threads(std::span<const RankWork> works) {
  if (works.size() == 1 || !blocking_launches()) return false;
  for (const RankWork& work : works)
    for (const Call& call : work.calls) {
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
  RankState& state = *work.state;
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

// Gives the rank's calls the addresses of its device. Takes out those that change nothing.
Status resolve_all(RankWork& work) {
  RankState& state = *work.state;
  const RankScope scope(state, work.calls, false);
  RONDO_CHECK_OK(scope.entered());
  BufferAddresses addresses(state.options.device);
  std::size_t kept = 0;
  for (Call& call : work.calls) {
    RONDO_CHECK_OK(resolve(state, addresses, call));
    state.count_calls(call.record.collective);
    if (state.members.size == 1 && leaves_all_as_it_is(call)) continue;
    if (&work.calls[kept] != &call) work.calls[kept] = std::move(call);
    ++kept;
  }
  const std::span<Call> all = work.calls.first(kept);
  const auto own = std::stable_partition(all.begin(), all.end(),
                                         [](const Call& call) { return !is_one_sided(call); });
  work.calls = all.first(static_cast<std::size_t>(own - all.begin()));
  work.one_sided = all.subspan(work.calls.size());
  return ok_status();
}

// The ranks of a communicator next to each other, so that all GPUs of this process get the kernels
// of several communicators in the same order.
void sort_by_communicator(std::span<RankWork> works) {
  for (auto first = works.begin(); first != works.end();)
    first = std::stable_partition(
        first, works.end(), [group = first->state->members.group.get()](const RankWork& work) {
          return work.state->members.group.get() == group;
        });
}

Status post(const RankWork& work, std::span<const Call> calls) {
  const RankScope scope(*work.state, calls, true);
  RONDO_CHECK_OK(scope.entered());
  return DeviceRank::of(*work.state).post(calls);
}

// Its handle names another stream in another thread, so the work on it is done before and after.
Status finish_per_thread_stream(const RankWork& work, std::span<const Call> calls) {
  const auto is_on_it = [](const Call& call) { return call.stream == kPerThreadStream; };
  if (std::none_of(calls.begin(), calls.end(), is_on_it)) return ok_status();
  const DeviceScope scope(work.state->options.device);
  RONDO_CHECK_OK(scope.entered());
  return check(gpu_api()->synchronize_stream(kPerThreadStream), "cudaStreamSynchronize");
}

// Of one communicator after another, so that all GPUs get them in the same order.
Status post_by_threads(std::span<const RankWork> works, std::size_t round, std::size_t rounds) {
  for (const RankWork& work : works) RONDO_CHECK_OK(finish_per_thread_stream(work, work.calls));
  while (!works.empty()) {
    const auto* const group = works.front().state->members.group.get();
    std::vector<const RankWork*> beside;
    for (const RankWork& work : works)
      if (work.state->members.group.get() == group) beside.push_back(&work);
    RONDO_CHECK_OK(launch_at_once(beside, [&](const RankWork* work) -> Status {
      const std::span<const Call> calls = part_of_round(*work, round, rounds);
      RONDO_CHECK_OK(post(*work, calls));
      return finish_per_thread_stream(*work, calls);
    }));
    works = works.subspan(beside.size());
  }
  return ok_status();
}

// Posts a round of all ranks; then each waits until its calls are on its streams.
Status run_round(std::span<const RankWork> works, std::size_t round, std::size_t rounds,
                 bool threads) {
  std::unique_lock<std::mutex> turns;
  if (works.size() > 1) turns = StreamOrder::turns_of_group();
  Status result = threads ? post_by_threads(works, round, rounds) : ok_status();
  std::size_t posted = threads && result.ok() ? works.size() : 0;
  while (result.ok() && posted < works.size()) {
    result = post(works[posted], part_of_round(works[posted], round, rounds));
    if (result.ok()) ++posted;
  }
  if (turns.owns_lock()) turns.unlock();
  for (const RankWork& work : works.first(posted)) {
    const RankScope scope(*work.state, work.calls, false);
    Status waited = scope.entered();
    if (waited.ok()) waited = DeviceRank::of(*work.state).wait_until_enqueued();
    if (result.ok()) result = waited;
  }
  return result;
}

}  // namespace

Status enqueue_together(std::span<RankWork> works) {
  if (works.empty()) return ok_status();
  if (works.size() == 1)
    if (std::optional<Status> done = enqueue_alone(works.front())) return *std::move(done);
  const DeviceScope outermost;
  RONDO_CHECK_OK(outermost.entered());
  sort_by_communicator(works);
  for (RankWork& work : works) RONDO_CHECK_OK(resolve_all(work));
  const std::size_t rounds = cut_into_rounds(works);
  RONDO_TRY(const bool threads, need_threads(works));
  Status result;
  const EnqueueFlag::Scope enqueues(DeviceRank::of(*works.front().state).enqueue_flag());
  std::size_t entered = 0;
  while (result.ok() && entered < works.size()) {
    result = works[entered].state->enter();
    if (result.ok()) ++entered;
  }
  for (std::size_t round = 0; round < rounds && result.ok(); ++round)
    result = run_round(works, round, rounds, threads);
  for (const RankWork& work : works) {
    if (!result.ok()) break;
    if (work.one_sided.empty()) continue;
    const DeviceScope scope(work.state->options.device);
    result = scope.entered();
    if (result.ok()) result = DeviceRank::of(*work.state).post_one_sided(work.one_sided);
  }
  for (const RankWork& work : works.first(entered)) work.state->leave();
  return result;
}

}  // namespace rondo::gpu
