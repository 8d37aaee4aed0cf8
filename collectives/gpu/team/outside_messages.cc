// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/outside_messages.h"

#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {
namespace {

constexpr auto kMessages = StreamOrder::Kind::kMessages;

}  // namespace

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
Result<bool> OutsideMessages::launch(Mismatch* mismatch) {
  if (messages_.empty()) return false;
  const StreamUse& on = team_.order.streams(rank_).front();
  const bool by_thread = blocking_launches() && !capturing(on.capture) && !team_.device.is_alone();
  const LaunchPosition site =
      by_thread ? team_.site_for_any_thread(rank_, on) : team_.site_of(rank_, on);
  if (by_thread) {
    RONDO_CHECK_OK(team_.begin_launch(site, posts_, set_of(rank_), kMessages));
    RONDO_CHECK_OK(launch_on_a_thread(site, mismatch));
    return true;
  }
  const StreamOrder::Turn turn(team_.order, site.capture);
  RONDO_CHECK_OK(team_.begin_launch(site, posts_, set_of(rank_), kMessages));
  RONDO_CHECK_OK(team_.processes->messages().run(messages_, site.stream, mismatch));
  RONDO_CHECK_OK(end(site));
  return false;
}

Status OutsideMessages::end(const LaunchPosition& site) {
  return team_.order.end(site, set_of(rank_), kMessages);
}

// The launches return when the peers have done their part. That may need calls that other ranks of
// this process, even of this thread, have not posted yet. So the launches run without the team's
// mutex, and this post returns before them.
Status OutsideMessages::launch_on_a_thread(const LaunchPosition& site, Mismatch* mismatch) {
  RONDO_TRY(auto prepared, team_.processes->messages().prepare(messages_, mismatch));
  wait_for_launcher();  // has finished: its post was waited for
  const auto launch = [this, site, prepared = std::move(prepared)] {
    const DeviceScope scope(team_.device.number());
    Status result = scope.entered();
    if (result.ok()) result = team_.processes->messages().enqueue(prepared, site.stream);
    over_(site, result);
  };
  RONDO_TRY(launcher_, Thread::start("a launch", launch, [this, site](const Error& error) {
              over_(site, copy_of(error));
            }));
  return ok_status();
}

}  // namespace rondo::gpu
