// What a DeviceTeam does where other processes have ranks too: led calls, messages, and collectives
// that are messages.
#include <algorithm>

#include "collectives/gpu/device_team.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

bool is_split(Collective which) {
  return which == Collective::kGather || which == Collective::kScatter ||
         which == Collective::kAllToAll;
}

// One stream of a process takes part in such a call: of a rank on the processes' device.
DeviceTeam::Spot DeviceTeam::spot_for_process(const Meeting& meeting) const {
  const int rank = *std::find_if(here_ranks_.begin(), here_ranks_.end(),
                                 [&](int r) { return devices_[r] == processes_->device(); });
  const Posted& posted = meeting.posted[rank];
  if (posted.call.stream == kPerThreadStream && here_ranks_.size() > 1)
    return {place_of(rank), distinct_[place_of(rank)].own, nullptr, posted.capture, false};
  return spot_of(rank, {posted.call.stream, posted.ready, posted.capture});
}

Done DeviceTeam::launch_led(Meeting& meeting, Mismatch* mismatch) {
  const DeviceScope scope(processes_->device());
  RONDO_CHECK_OK(scope.entered());
  const Spot spot = spot_for_process(meeting);
  std::vector<Posted> here;
  std::vector<Side> sides;
  for (const int r : here_ranks_) {
    here.push_back(meeting.posted[r]);
    sides.push_back(meeting.posted[r].call.side);
  }
  RONDO_CHECK_OK(begin_launch(spot, here));
  RONDO_CHECK_OK(processes_->led_calls().enqueue(here[0].call.record, sides, spot.stream,
                                                 capturing(spot.capture), mismatch));
  return end_launch(spot);
}

// Every rank's part of a gather, scatter or all-to-all, all of this process's on one stream: so
// that none waits behind another.
Done DeviceTeam::launch_as_messages(Meeting& meeting, Mismatch* mismatch) {
  const DeviceScope scope(processes_->device());
  RONDO_CHECK_OK(scope.entered());
  const Spot spot = spot_for_process(meeting);
  std::vector<Posted> here;
  for (const int r : here_ranks_) here.push_back(meeting.posted[r]);
  RONDO_CHECK_OK(begin_launch(spot, here));
  const CallRecord& record = here[0].call.record;
  const std::uint64_t block = record.count * size_of(record.type);
  DirectLaunches copies(api_, ctas_[here_ranks_[0]], spot.stream);
  if (!all_here_reach_) copies.copy_by_driver();
  std::vector<ProcessMessage> messages;
  const int n = static_cast<int>(devices_.size());
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      const bool gathers = record.collective == Collective::kGather;
      const bool scatters = record.collective == Collective::kScatter;
      if ((gathers && to != record.root) || (scatters && from != record.root)) continue;
      if (!is_here(from) && !is_here(to)) continue;
      const auto* send = static_cast<const std::byte*>(meeting.posted[from].call.side.send);
      auto* receive = static_cast<std::byte*>(meeting.posted[to].call.side.receive);
      if (is_here(from) && !gathers) send += static_cast<std::uint64_t>(to) * block;
      if (is_here(to) && !scatters) receive += static_cast<std::uint64_t>(from) * block;
      if (!is_here(from) || !is_here(to)) {
        messages.push_back({from, to, record, send, receive, true});
      } else if (send != receive) {
        RONDO_CHECK_OK(copies.copy(send, receive, block));
      }
    }
  RONDO_CHECK_OK(copies.flush());
  if (!messages.empty())
    RONDO_CHECK_OK(
        processes_->messages().run(messages, spot.stream, capturing(spot.capture), mismatch));
  return end_launch(spot);
}

// The messages of this post from and to other processes, on its first stream: they meet nobody, and
// wait for no other rank of this process: who waits for a peer there would keep back what that
// peer's peers need from here.
// Ranks of one device must not depend on each other in them, where their streams may share a
// hardware queue.
Done DeviceTeam::launch_to_processes(int rank, Mismatch* mismatch) {
  const Spot spot = spot_of(rank, ranks_[rank].streams.front());
  RONDO_CHECK_OK(begin_launch(spot, outside_posts_));
  if (blocking_launches() && !capturing(spot.capture) && here_ > 1)
    return launch_on_a_thread(rank, spot, mismatch);
  RONDO_CHECK_OK(
      processes_->messages().run(outside_, spot.stream, capturing(spot.capture), mismatch));
  return ranks_[rank].outside->end(spot.stream, spot.capture);
}

// The launches return when the peers have done their part, which may need what other ranks of this
// process have still to post, even those of this thread: so they do not hold the team's mutex, and
// this post returns before them.
Done DeviceTeam::launch_on_a_thread(int rank, const Spot& spot, Mismatch* mismatch) {
  RONDO_TRY(const auto prepared, processes_->messages().prepare(outside_, mismatch));
  RankState& state = ranks_[rank];
  if (state.launcher.joinable()) state.launcher.join();  // was over when its post was waited for
  state.launching = true;
  const auto finish = [this, &state](const Error* error) {
    {
      std::lock_guard lock(mutex_);
      state.launching = false;
      state.launched = error == nullptr ? done() : Done(copy_of(*error));
      if (error != nullptr && failure_.ok()) failure_ = copy_of(*error);
    }
    launched_.notify_all();
  };
  const auto launch = [this, &state, spot, prepared, finish] {
    const DeviceScope scope(distinct_[spot.place].device);
    Done result = scope.entered();
    if (result.ok()) result = processes_->messages().enqueue(*prepared, spot.stream, false);
    if (result.ok()) result = state.outside->end(spot.stream, spot.capture);
    finish(result.ok() ? nullptr : &result.error());
  };
  auto started =
      Thread::start("a launch", launch, [finish](const Error& error) { finish(&error); });
  state.launching = started.ok();
  if (!started.ok()) return started.error();
  state.launcher = std::move(*started);
  return done();
}

}  // namespace rondo::gpu
