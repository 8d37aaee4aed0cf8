// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/rank/device_rank.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/faults/peer_words.h"
#include "collectives/gpu/calls/pointers.h"
#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/rank/device_comms.h"
#include "collectives/gpu/rank/device_windows.h"
#include "collectives/gpu/staging/host_proxy.h"
#include "collectives/host/rank_state.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/leaf_layout.h"
#include "collectives/profiler/call_events.h"
#include "collectives/tuner/tuner_plugin.h"
#include "transport/cuda/device.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {
namespace {

// Interval at which a rank that waits for others checks faults, aborts and deadlines.
constexpr std::chrono::microseconds kEnqueueLook{2000};

// Ends what DeviceRank::record() has begun. Returns the status.
Status end_record(RankState& state, bool in_black_box, Status enqueued) {
  if (in_black_box) state.host.recorder.end(enqueued.code());
  if (state.events != nullptr) state.events->stop();
  return enqueued;
}

}  // namespace

DeviceRank& DeviceRank::of(const RankState& state) {
  return static_cast<DeviceRank&>(*state.device);
}

DeviceRank::DeviceRank(RankState& state) : state_(state) {
  state_.faults.listen([this](const Fault&) { stop(); });
}

DeviceRank::~DeviceRank() {
  if (joined_) team_->edges()->leave(state_);
}

void DeviceRank::report(int peer, std::span<const std::byte> message) {
  if (hosted_) hosted_->report(peer, message);
}

int DeviceRank::gone() const { return hosted_ ? hosted_->gone() : -1; }

void DeviceRank::close() {
  if (hosted_) hosted_->close();
  if (window_rank_) window_rank_->close();
}

void DeviceRank::set_team(std::shared_ptr<DeviceTeam> team) {
  team_ = std::move(team);
  place_ = team_->place_of(state_.members.rank);
}

void DeviceRank::set_tuning(std::unique_ptr<tuner::Tuner> tuner,
                            const std::shared_ptr<const TunedWays>& ways) {
  tuner_ = std::move(tuner);
  if (ways) team_->set_tuned(ways);
}

void DeviceRank::join_team() {
  team_->edges()->join(state_);
  joined_ = true;
}

void DeviceRank::stop() {
  std::shared_ptr<HostProxy> windows;
  {
    std::lock_guard lock(mutex_);
    windows = window_rank_;
    if (comms_) comms_->stop();
  }
  if (team_) team_->end();
  if (hosted_) hosted_->end();
  if (windows) windows->end();
}

GpuMemoryUse DeviceRank::memory() const {
  GpuMemoryUse use = team_->memory(place_);
  std::lock_guard lock(mutex_);
  if (window_rank_ && window_rank_ != hosted_) window_rank_->add_memory(state_.members.rank, &use);
  if (comms_) use.device += comms_->device_bytes();
  return use;
}

Status DeviceRank::suspend() { return team_->suspend(place_, deadline()); }
Status DeviceRank::resume() { return team_->resume(place_, deadline()); }

net::Deadline DeviceRank::deadline() {
  return net::Deadline::of(to_nanoseconds(state_.timeout_seconds.load()),
                           [this] { return !state_.faults.standing().ok(); });
}

bool DeviceRank::adopt_kernel_fault() {
  std::optional<Fault> found;
  if (!team_ || !team_->kernel_gave_up(place_, &found)) return false;
  if (!found) return !state_.faults.adopted().ok();
  state_.faults.raise(std::move(*found));
  return true;
}

Status DeviceRank::post(std::span<const Call> calls) {
  if (state_.faults.is_raised() || adopt_kernel_fault()) return state_.faults.why_it_ended();
  record(calls);
  ++posted_;
  Mismatch mismatch;
  const Status posted = team_->post(place_, calls, &mismatch);
  return posted.ok() ? ok_status() : fault_of_post(posted, mismatch);
}

Status DeviceRank::copy_alone(const Call& call) {
  const Collective which = call.record.collective;
  const std::size_t bytes = call.record.count * size_of(call.record.type);
  const auto copy = [&](void* to, const void* from, GpuCopy kind) {
    return gpu_api()->copy(to, from, bytes, kind, call.stream);
  };
  record({&call, 1});
  GpuError error = copy(call.receive, call.send, GpuCopy::kDeviceToDevice);
  if (error == kGpuInvalidValue) {
    BufferAddresses addresses(state_.options.device);
    const auto from = addresses.of(call.send, which, "sendbuff");
    if (!from.ok()) return end_record(state_, !hosted_, from.error());
    const auto to = addresses.of(call.receive, which, "recvbuff");
    if (!to.ok()) return end_record(state_, !hosted_, to.error());
    error = copy(*to, *from, GpuCopy::kAny);
  }
  const Status copied = check(error, "cudaMemcpyAsync");
  return end_record(state_, !hosted_, copied.ok() ? ok_status() : fault_of_post(copied, {}));
}

// Calls of kernels. They end in the black box once they are on their streams. If the host does some
// of the rank's calls, its thread writes the black box instead.
void DeviceRank::record(std::span<const Call> calls) {
  for (const Call& call : calls) {
    if (hosted_) break;
    CallRecord record = call.record;
    if (is_point_to_point(call)) record.root = call.peer;
    state_.host.recorder.choose(std::uint8_t{0xff}, kEnqueuedProtocol);
    state_.host.recorder.begin(record, is_point_to_point(call) ? 0 : ++recorded_);
  }
  if (state_.events == nullptr) return;
  for (const Call& call : calls) state_.events->start(call, way_of(call));
}

// As all ranks plan it, except for what other ranks' limits change. The host may do any call of
// hosted_.
profiler::Way DeviceRank::way_of(const Call& call) const {
  if (hosted_ || is_point_to_point(call) || is_ordered(call.record.collective) || call.counts)
    return {};
  DevicePlanFacts facts = team_->plan_facts();
  facts.in_windows = call.send_windows != nullptr && call.receive_windows != nullptr;
  facts.max_channels = std::min(facts.max_channels, call.limits.max_ctas);
  facts.copy_engines = call.limits.mover == CallLimits::Mover::kCopyEngines &&
                       (!facts.processes || is_in_engine_windows(call));
  const auto plan = make_device_plan(facts, call.record);
  return plan.ok() ? profiler::way_of(*plan) : profiler::Way{};
}

Status DeviceRank::post_one_sided(std::span<const Call> calls) {
  if (calls.empty()) return ok_status();
  if (state_.faults.is_raised() || adopt_kernel_fault()) return state_.faults.why_it_ended();
  if (!window_rank_)
    return fail(StatusCode::kInvalidUsage,
                "{} on CUDA device {} : register a window first (ncclCommWindowRegister): ranks on "
                "GPUs open signals with it",
                rondo::name(calls[0].record.collective), state_.options.device);
  // Address by which a put over the network names the call's bytes; null: it needs copies.
  const auto name_to_network = [this](const Call& call) -> const void* {
    if (call.window < 0 || call.record.count == 0) return nullptr;
    return windows_->name_to_network(call.send, call.record.count * size_of(call.record.type));
  };
  const Status posted = window_rank_->post_one_sided(calls, name_to_network);
  return posted.ok() ? ok_status() : fault_of_post(posted, {});
}

Status DeviceRank::fault_of_post(const Status& posted, const Mismatch& mismatch) {
  RONDO_CHECK_OK(state_.faults.standing());
  const Membership& members = state_.members;
  // The others get the name of the rank whose GPU failed.
  const bool is_own = mismatch.peer < 0 && posted.code() == StatusCode::kUnhandledCudaError;
  Fault found = Fault::found_by(
      members.rank, posted.code(), is_own ? members.rank : mismatch.peer,
      is_own ? fmt::format("{}: {}", members.name_of(members.rank), posted.error().text)
             : posted.error().text);
  found.own = mismatch.own;
  found.other = mismatch.other;
  state_.faults.raise(std::move(found));
  return posted;
}

// Only ranks of this process. A rank that has left makes no more calls, so this is checked first.
std::optional<Fault> DeviceRank::look_at_missing(FailureDetector& detector) {
  detector.tick(now_ns());
  for (int r = 0; r < state_.host.size; ++r)
    if (HostAtomics::load_acquire(state_.host.peers[r].progress->state) == kLeft)
      detector.report_leave(state_.members.local_ranks[r]);
  detector.report_wait(state_.members.rank,
                       Wait{"", team_->missing(place_), state_.timeout_seconds.load()});
  if (!joined_) state_.show_device_wait(posted_, detector.wait_of(state_.members.rank));
  if (const auto warning = detector.warning()) RONDO_WARN("{}", *warning);
  return detector.verdict();
}

Status DeviceRank::wait_until_enqueued() {
  return end_record(state_, !hosted_, wait_for_streams());
}

Status DeviceRank::wait_for_streams() {
  std::optional<FailureDetector> detector;
  while (!team_->is_enqueued(place_, kEnqueueLook)) {
    Status standing = state_.faults.standing();
    if (!standing.ok() && state_.faults.ended() == FaultState::kRunning) return standing;
    if (state_.faults.ended() != FaultState::kRunning) {
      Status ended = state_.faults.why_it_ended();
      team_->fail_all(ended);
      return ended;
    }
    const Membership& members = state_.members;
    if (!detector)
      detector.emplace(FailureDetector::Options{
          members.rank, members.size, [&members](int rank) { return members.name_of(rank); }});
    if (auto found = look_at_missing(*detector)) {
      state_.faults.raise(std::move(*found));
      team_->fail_all(state_.faults.adopted());
      return state_.faults.adopted();
    }
  }
  if (Status failed = team_->failure(); !failed.ok()) {
    const bool is_fault = state_.faults.is_raised() || state_.faults.adopt_from_peers();
    return is_fault ? state_.faults.adopted() : failed;
  }
  return team_->join(place_);
}

namespace {

// Copy engines also run broadcasts, gathers and scatters (launch/shared_launches.cc). In place, the
// root's buffer counts on all ranks.
void look_for_engine_windows(const DeviceWindows& windows, const Membership& members,
                             const Buffers& given, Call* call) {
  const std::size_t block = call->record.count * size_of(call->record.type);
  const std::size_t all = block * static_cast<std::size_t>(members.size);
  const std::size_t own = block * static_cast<std::size_t>(members.rank);
  const auto* const send = static_cast<const std::byte*>(given.send);
  auto* const receive = static_cast<std::byte*>(given.receive);
  switch (call->record.collective) {
    case Collective::kBroadcast:
      call->receive_windows = windows.symmetric_at(call->receive, block);
      return;
    case Collective::kGather:
      if (receive == nullptr || send != receive + own)
        call->send_windows = windows.symmetric_at(call->send, block);
      else if ((call->receive_windows = windows.symmetric_at(receive, all)) != nullptr)
        call->receive = receive;
      return;
    case Collective::kScatter:
      if (send == nullptr || receive != send + own)
        call->receive_windows = windows.symmetric_at(call->receive, block);
      else if ((call->send_windows = windows.symmetric_at(send, all)) != nullptr)
        call->send = send;
      return;
    default:
      return;
  }
}

}  // namespace

// Only for collectives in which each rank can derive the addresses of all buffers from its own.
void DeviceRank::look_for_windows(Call* call, const Buffers& given) const {
  const Collective which = plain_call(call->record).collective;
  const bool is_symmetric = which == Collective::kAllReduce || which == Collective::kAllGather ||
                            which == Collective::kReduceScatter || which == Collective::kAllToAll;
  if (!windows_ || call->record.count == 0) return;
  const DevicePlanFacts& facts = plan_facts();
  const bool by_engines = call->limits.mover == CallLimits::Mover::kCopyEngines &&
                          facts.processes && facts.hosts == 1 && facts.shared_bytes > 0;
  if (!is_symmetric && by_engines) look_for_engine_windows(*windows_, state_.members, given, call);
  if (!is_symmetric) return;
  const std::size_t block = call->record.count * size_of(call->record.type);
  const Segments segments = segments_of(which, state_.members.size);
  const auto window_of = [&](const void* buffer, int count) {
    return windows_->symmetric_at(buffer, block * static_cast<std::size_t>(count));
  };
  call->send_windows = window_of(call->send, segments.sent);
  call->receive_windows = window_of(call->receive, segments.received);
}

Result<int> DeviceRank::open_window(const Exchange& exchange, void* memory, std::size_t bytes,
                                    bool symmetric) {
  {
    std::lock_guard lock(mutex_);
    if (!windows_) windows_ = std::make_unique<DeviceWindows>(state_, team_, hosted_);
  }
  RONDO_TRY(const int window, windows_->open(exchange, memory, bytes, symmetric));
  const auto open_signals = [&]() -> Status {
    if (window_rank_) return ok_status();
    std::shared_ptr<HostProxy> made = hosted_;
    if (!made) {
      // Signals carry no data, so it does not matter that ranks want different amounts of memory,
      // and nothing is copied to the GPU.
      RONDO_TRY(made, HostProxy::make(state_, HostProxy::wanted_bytes(), false));
      RONDO_CHECK_OK(made->start());
    }
    std::lock_guard lock(mutex_);
    window_rank_ = std::move(made);
    return ok_status();
  };
  Status opened = comms_ ? comms_->window_opened(exchange, window) : ok_status();
  if (opened.ok()) opened = open_signals();
  if (opened.ok()) return window;
  close_window(window);
  return opened.error();
}

std::size_t DeviceRank::window_bytes(int window, int peer) const {
  return windows_->bytes(window, peer);
}

void DeviceRank::close_window(int window) {
  if (comms_) comms_->window_closes(window);
  if (windows_) windows_->close(window);
}

DeviceApi* DeviceRank::device_api() {
  if (!VirtualMemory::can_make(state_.options.device)) return nullptr;
  std::lock_guard lock(mutex_);
  if (!windows_) windows_ = std::make_unique<DeviceWindows>(state_, team_, hosted_);
  if (!comms_) comms_ = std::make_unique<DeviceComms>(state_, *windows_, reach_team_);
  return comms_.get();
}

Status DeviceRank::find_window_of(Call* call) const {
  RONDO_TRY(const DeviceWindows::Target place, windows_->place(call->window, call->peer));
  if (place.at != nullptr) call->receive = place.at + call->offset;
  call->window = place.by_network;
  return ok_status();
}

}  // namespace rondo::gpu
