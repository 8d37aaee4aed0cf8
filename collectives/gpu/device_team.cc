#include "collectives/gpu/device_team.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/poll_until.h"
#include "collectives/gpu/launch/kernel_loading.h"
#include "collectives/watchdog/fault_texts.h"
#include "kernels/cuda/kernels.h"
#include "kernels/reduce.h"
#include "transport/cuda/device.h"
#include "transport/cuda/device_memory.h"
#include "transport/cuda/peer_access.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {
Result<std::shared_ptr<DeviceTeam>> DeviceTeam::make(const TeamOptions& options,
                                                     std::shared_ptr<ProcessTeam> processes) {
  if (options.devices.size() > cuda::kMostDirectRanks)
    return fail(Status::kInvalidUsage,
                "{} ranks on CUDA devices of one host are too many: at most {}",
                options.devices.size(), cuda::kMostDirectRanks);
  std::shared_ptr<DeviceTeam> team(new DeviceTeam(options, std::move(processes)));
  RONDO_CHECK_OK(team->open());
  return team;
}

DeviceTeam::DeviceTeam(const TeamOptions& options, std::shared_ptr<ProcessTeam> processes)
    : api_(*gpu_api()),
      options_(options),
      devices_(options_.devices),
      processes_(std::move(processes)),
      ranks_(devices_.size()),
      sends_(devices_.size() * devices_.size()),
      receives_(devices_.size() * devices_.size()) {
  for (int r = 0; r < static_cast<int>(devices_.size()); ++r) {
    if (!is_here(r)) continue;
    ++here_;
    here_ranks_.push_back(r);
    if (place_of(r) == static_cast<int>(distinct_.size()))
      distinct_.emplace_back().device = devices_[r];
    distinct_[place_of(r)].ranks.push_back(r);
  }
}

Done DeviceTeam::open() {
  std::vector<int> ctas;
  for (DeviceState& state : distinct_) {
    DeviceScope scope(state.device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(open_peers(state));
    std::vector<int> copies = {cuda::kCopyKernel, cuda::kConnectedCopyKernel,
                               cuda::kPushedCopyKernel, cuda::kConnectedBulkKernel};
    for (int row = 0; row < cuda::kMulticastKernels; ++row)
      copies.push_back(cuda::kFirstMulticastKernel + row);
    RONDO_CHECK_OK(load_kernels(
        api_, copies, {cuda::direct_kernel, cuda::connected_kernel, cuda::pushed_kernel}));
    int multiprocessors = 0;
    RONDO_CHECK_OK(
        check(api_.attribute(&multiprocessors, GpuAttribute::kMultiprocessors, state.device),
              "cuDeviceGetAttribute"));
    ctas.push_back(multiprocessors * cuda::kDirectCtas);
    RONDO_CHECK_OK(open_device(state));
  }
  ctas_.resize(devices_.size());
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    if (!is_here(static_cast<int>(r))) continue;
    DeviceScope scope(devices_[r]);
    RONDO_CHECK_OK(scope.entered());
    ranks_[r].ready.emplace_back();
    RONDO_CHECK_OK(check(api_.create_event(&ranks_[r].ready[0], kEventPlain), "cudaEventCreate"));
    if (processes_ != nullptr) {
      ranks_[r].outside = std::make_unique<StreamOrder>();
      RONDO_CHECK_OK(ranks_[r].outside->open());
    }
    ctas_[r] = ctas[place_of(static_cast<int>(r))];
  }
  return open_connections();
}

Done DeviceTeam::open_peers(DeviceState& state) {
  for (const DeviceState& peer : distinct_) {
    if (peer.device == state.device) continue;
    RONDO_TRY(const bool reaches, may_reach(state.device, peer.device));
    if (!reaches) {
      all_here_reach_ = false;
      continue;
    }
    const GpuError enabled = api_.enable_peer_access(peer.device);
    if (enabled != kGpuPeerAlreadyEnabled)
      RONDO_CHECK_OK(check(enabled, "cudaDeviceEnablePeerAccess"));
  }
  return done();
}

Done DeviceTeam::open_device(DeviceState& state) {
  RONDO_CHECK_OK(check(api_.create_event(&state.captured, kEventPlain), "cudaEventCreate"));
  RONDO_CHECK_OK(check(api_.create_event(&state.copied, kEventPlain), "cudaEventCreate"));
  RONDO_CHECK_OK(check(api_.create_event(&state.order, kEventPlain), "cudaEventCreate"));
  RONDO_CHECK_OK(check(api_.create_stream(&state.own, 0), "cudaStreamCreate"));
  // Recorded once, so that a graph may wait for it before any launch.
  return check(api_.record_event(state.order, state.own, GpuEventUse::kPlain), "cudaEventRecord");
}

DeviceTeam::~DeviceTeam() {
  for (RankState& rank : ranks_)
    if (rank.launcher.joinable()) rank.launcher.join();
  if (processes_ != nullptr && connections_ != nullptr) end_kernels();
  for (RankState& rank : ranks_)
    for (GpuEvent event : rank.ready)
      if (event != nullptr) api_.destroy_event(event);
  for (DeviceState& state : distinct_) {
    if (state.order != nullptr) api_.destroy_event(state.order);
    if (state.captured != nullptr) api_.destroy_event(state.captured);
    if (state.copied != nullptr) api_.destroy_event(state.copied);
    if (state.own != nullptr) api_.destroy_stream(state.own);
    if (Done freed; state.spare != nullptr) free_shareable(state.spare, &freed);
  }
}

// Kernels that wait for other processes: they end by themselves, or are ended.
void DeviceTeam::end_kernels() {
  constexpr double kPatientSeconds = 10;
  if (launches_are_over(kPatientSeconds)) return;
  connections_->stop_kernels();
  if (!launches_are_over(kPatientSeconds / 2)) connections_->leak();
}

bool DeviceTeam::launches_are_over(double seconds) const {
  const auto deadline = seconds_from_now(seconds);
  return std::all_of(distinct_.begin(), distinct_.end(), [&](const DeviceState& state) {
    return poll_until([&] { return api_.query_event(state.order) != kGpuNotReady; }, deadline);
  });
}

int DeviceTeam::place_of(int rank) const {
  const auto found = std::find_if(distinct_.begin(), distinct_.end(), [&](const auto& state) {
    return state.device == devices_[rank];
  });
  return static_cast<int>(found - distinct_.begin());
}

Done DeviceTeam::post(int rank, std::span<const DeviceCall> calls, Mismatch* mismatch) {
  std::unique_lock lock(mutex_);
  RONDO_CHECK_OK(failure_);
  ranks_[rank].streams.clear();
  ranks_[rank].meets = false;
  for (const DeviceCall& call : calls) RONDO_CHECK_OK(add_stream(rank, call.stream));
  Done result;
  for (const DeviceCall& call : calls) {
    const bool message =
        call.record.collective == Collective::kSend || call.record.collective == Collective::kRecv;
    if (!message && result.ok()) result = post_collective(rank, call, mismatch);
  }
  matches_.clear();
  outside_.clear();
  outside_posts_.clear();
  for (const DeviceCall& call : calls) {
    const bool message =
        call.record.collective == Collective::kSend || call.record.collective == Collective::kRecv;
    if (message && result.ok()) result = post_message(rank, call, mismatch);
  }
  if (result.ok() && !matches_.empty()) result = launch_messages(rank);
  if (result.ok() && !outside_.empty()) result = launch_to_processes(rank, mismatch);
  if (!result.ok()) failure_ = result;
  lock.unlock();
  launched_.notify_all();
  return result;
}

// Notes where the rank's streams stand before the calls of this post.
Done DeviceTeam::add_stream(int rank, GpuStream stream) {
  RankState& state = ranks_[rank];
  for (const StreamUse& use : state.streams)
    if (use.stream == stream) return done();
  const std::size_t index = state.streams.size();
  if (index == state.ready.size()) {
    state.ready.emplace_back();
    RONDO_CHECK_OK(check(api_.create_event(&state.ready[index], kEventPlain), "cudaEventCreate"));
  }
  StreamUse use{stream, state.ready[index], {}};
  RONDO_CHECK_OK(check(api_.capture_info(stream, &use.capture), "cudaStreamGetCaptureInfo"));
  state.streams.push_back(use);
  if (state.outside) RONDO_CHECK_OK(state.outside->wait(stream, use.capture));
  // A rank that is alone and uses one stream waits for nobody.
  if (here_ == 1 && index == 0) return done();
  const std::size_t first = here_ == 1 && index == 1 ? 0 : index;
  for (std::size_t i = first; i <= index; ++i)
    RONDO_CHECK_OK(check(
        api_.record_event(state.streams[i].ready, state.streams[i].stream, GpuEventUse::kPlain),
        "cudaEventRecord"));
  return done();
}

const DeviceTeam::StreamUse& DeviceTeam::use_of(int rank, GpuStream stream) const {
  const auto& streams = ranks_[rank].streams;
  return *std::find_if(streams.begin(), streams.end(),
                       [&](const StreamUse& use) { return use.stream == stream; });
}

Done DeviceTeam::post_collective(int rank, const DeviceCall& call, Mismatch* mismatch) {
  const std::size_t n = devices_.size();
  ranks_[rank].meets = true;
  const std::uint64_t index = ranks_[rank].calls++ - first_meeting_;
  while (meetings_.size() <= index)
    meetings_.push_back({std::vector<Posted>(n), std::vector<bool>(n), 0});
  Meeting& meeting = meetings_[index];
  for (std::size_t peer = 0; peer < n; ++peer) {
    if (!meeting.here[peer] || meeting.posted[peer].call.record == call.record) continue;
    mismatch->peer = static_cast<int>(peer);
    mismatch->own = call.record;
    mismatch->other = meeting.posted[peer].call.record;
    mismatch->text = fault_texts::different_calls(ranks_[rank].calls, rank, mismatch->own,
                                                  mismatch->peer, mismatch->other);
    return fail(Status::kInvalidUsage, "{}", mismatch->text);
  }
  const StreamUse& use = use_of(rank, call.stream);
  meeting.posted[rank] = {call, use.ready, use.capture};
  meeting.here[rank] = true;
  if (++meeting.arrived < here_) return done();
  Done result = launch_meeting(rank, meeting, mismatch);
  if (result.ok()) {
    meetings_.pop_front();
    ++first_meeting_;
  }
  return result;
}

Done DeviceTeam::launch_meeting(int rank, Meeting& meeting, Mismatch* mismatch) {
  const CallRecord& record = meeting.posted[rank].call.record;
  if (processes_ == nullptr && copies_by_engines(meeting)) return launch_copies(meeting);
  const DevicePlanFacts facts = processes_ == nullptr ? facts_of(meeting) : facts_;
  RONDO_TRY(const DevicePlan plan, make_device_plan(facts, record));
  if (processes_ != nullptr) {
    const bool in_capture = capturing(meeting.posted[rank].capture);
    const bool splits = plan.strategy == Strategy::kDirect && processes_->splits_into_messages() &&
                        is_split(record.collective);
    if (plan.strategy == Strategy::kDirect && !splits) return launch_led(meeting, mismatch);
    RONDO_CHECK_OK(processes_->announcements().announce(record, in_capture, mismatch));
    if (plan.strategy == Strategy::kComposed) return launch_composed(meeting);
    if (splits) return launch_as_messages(meeting, mismatch);
  }
  if (plan.strategy != Strategy::kDirect) return launch_volley(plan, meeting);
  const Posted& last = meeting.posted[rank];
  const Spot spot = spot_of(rank, {last.call.stream, last.ready, last.capture});
  std::vector<Side> sides;
  for (const Posted& posted : meeting.posted) sides.push_back(posted.call.side);
  RONDO_CHECK_OK(begin_launch(spot, meeting.posted));
  DirectLaunches launches(api_, direct_ctas(rank, meeting.posted), spot.stream);
  if (!all_here_reach_) launches.copy_by_driver();
  RONDO_CHECK_OK(launches.collective(record, sides));
  RONDO_CHECK_OK(launches.flush());
  return end_launch(spot);
}

Done DeviceTeam::post_message(int rank, const DeviceCall& call, Mismatch* mismatch) {
  const int n = static_cast<int>(devices_.size());
  const bool sends = call.record.collective == Collective::kSend;
  const int from = sends ? rank : call.peer, to = sends ? call.peer : rank;
  const StreamUse& use = use_of(rank, call.stream);
  const Posted mine{call, use.ready, use.capture};
  if (!is_here(call.peer)) {
    outside_.push_back({from, to, call.record, call.side.send, call.side.receive});
    outside_posts_.push_back(mine);
    return done();
  }
  ranks_[rank].meets = true;
  ++ranks_[rank].messages;
  auto& own_queue = (sends ? sends_ : receives_)[from * n + to];
  auto& other_queue = (sends ? receives_ : sends_)[from * n + to];
  if (other_queue.empty()) {
    own_queue.push_back(mine);
    return done();
  }
  const Posted theirs = other_queue.front();
  other_queue.pop_front();
  const CallRecord &own = call.record, &other = theirs.call.record;
  if (own.count * size_of(own.type) != other.count * size_of(other.type)) {
    *mismatch = {call.peer, own, other, fault_texts::different_sizes(rank, own, call.peer, other)};
    return fail(Status::kInvalidUsage, "{}", mismatch->text);
  }
  matches_.push_back({sends ? mine : theirs, sends ? theirs : mine, from, to});
  return done();
}

// All messages that this post has completed, in one launch on its first stream.
Done DeviceTeam::launch_messages(int rank) {
  const Spot spot = spot_of(rank, ranks_[rank].streams.front());
  std::vector<Posted> all;
  for (const Match& match : matches_) {
    all.push_back(match.send);
    all.push_back(match.receive);
  }
  RONDO_CHECK_OK(begin_launch(spot, all));
  DirectLaunches launches(api_, direct_ctas(rank, all), spot.stream);
  const bool by_engines = std::any_of(
      all.begin(), all.end(), [](const Posted& posted) { return posted.call.copy_engines; });
  if (!all_here_reach_ || by_engines) launches.copy_by_driver();
  for (const Match& match : matches_) {
    const CallRecord& record = match.send.call.record;
    RONDO_CHECK_OK(launches.copy(match.send.call.side.send, match.receive.call.side.receive,
                                 record.count * size_of(record.type)));
    ++ranks_[match.from].matched;
    ++ranks_[match.to].matched;
  }
  RONDO_CHECK_OK(launches.flush());
  return end_launch(spot);
}

bool DeviceTeam::launched(int rank, int microseconds) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] {
    const RankState& state = ranks_[rank];
    return !failure_.ok() ||
           (state.calls <= first_meeting_ && state.matched == state.messages && !state.launching);
  };
  launched_.wait_for(lock, std::chrono::microseconds(microseconds), ready);
  return ready();
}

Done DeviceTeam::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

Done DeviceTeam::late_failure(int rank) {
  std::lock_guard lock(mutex_);
  return ranks_[rank].launched;
}

void DeviceTeam::fail_all(const Done& why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
  }
  launched_.notify_all();
}

std::vector<int> DeviceTeam::missing(int rank) {
  std::lock_guard lock(mutex_);
  std::vector<int> found;
  const int n = static_cast<int>(devices_.size());
  if (ranks_[rank].calls > first_meeting_) {
    const Meeting& meeting = meetings_.front();
    for (int peer = 0; peer < n; ++peer)
      if (is_here(peer) && !meeting.here[peer]) found.push_back(peer);
    return found;
  }
  for (int peer = 0; peer < n; ++peer)
    if (!sends_[rank * n + peer].empty() || !receives_[peer * n + rank].empty())
      found.push_back(peer);
  return found;
}

}  // namespace rondo::gpu
