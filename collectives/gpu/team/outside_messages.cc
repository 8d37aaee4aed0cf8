#include "collectives/gpu/team/outside_messages.h"

#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

OutsideMessages::~OutsideMessages() { wait_for_launcher(); }

void OutsideMessages::wait_for_launcher() {
  if (launcher_.joinable()) launcher_.join();
}

void OutsideMessages::begin_group() {
  messages_.clear();
  posts_.clear();
}

void OutsideMessages::add(const PostedCall& posted) {
  const Call& call = posted.call;
  const bool sends = call.record.collective == Collective::kSend;
  messages_.push_back(
      {sends ? rank_ : call.peer, sends ? call.peer : rank_, call.record, call.send, call.receive});
  posts_.push_back(posted);
}

// Ranks of one device must not depend on each other here, since their streams may share a hardware
// queue.
Result<bool> OutsideMessages::launch(const RankStreams::Use& on, Mismatch* mismatch) {
  if (messages_.empty()) return false;
  const bool by_thread = blocking_launches() && !capturing(on.capture) && !team_.is_alone();
  const LaunchPosition site =
      by_thread ? team_.site_for_any_thread(rank_, on) : team_.site_of(rank_, on);
  RONDO_CHECK_OK(team_.begin_messages(site, posts_, std::uint64_t{1} << site.place));
  if (by_thread) {
    RONDO_CHECK_OK(launch_on_a_thread(site, mismatch));
    return true;
  }
  const int device = team_.devices.of(rank_).device;
  LaunchTurn turn(&team_, team_.implicit_order && !capturing(site.capture));
  RONDO_CHECK_OK(turn.begin(device, site.stream));
  RONDO_CHECK_OK(
      team_.processes->messages().run(messages_, site.stream, capturing(site.capture), mismatch));
  RONDO_CHECK_OK(turn.end(device, site.stream));
  RONDO_CHECK_OK(order_.end(on));
  return false;
}

// The launches return when the peers have done their part. That may need calls that other ranks of
// this process, even of this thread, have not posted yet. So the launches run without the team's
// mutex, and this post returns before them.
Status OutsideMessages::launch_on_a_thread(const LaunchPosition& site, Mismatch* mismatch) {
  RONDO_TRY(auto prepared, team_.processes->messages().prepare(messages_, mismatch));
  wait_for_launcher();  // has finished: its post was waited for
  const auto launch = [this, site, prepared = std::move(prepared)] {
    const DeviceScope scope(team_.devices.of(rank_).device);
    Status result = scope.entered();
    if (result.ok()) result = team_.processes->messages().enqueue(prepared, site.stream, false);
    if (result.ok()) result = order_.end({site.stream, nullptr, site.capture});
    over_(result);
  };
  RONDO_TRY(launcher_, Thread::start("a launch", launch,
                                     [this](const Error& error) { over_(copy_of(error)); }));
  return ok_status();
}

}  // namespace rondo::gpu
