// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/kernel_watch.h"

#include <algorithm>

#include "collectives/faults/failure_detector.h"
#include "collectives/faults/peer_words.h"

namespace rondo::gpu {
namespace {

std::uint64_t word(const std::uint64_t& from) { return HostAtomics::load_acquire(from); }

// What a kernel wrote when it gave up, if it did.
void add_report(const cuda::Control& control, Progress* found) {
  if (HostAtomics::load_acquire(control.gave_up) == 0) return;
  found->gave_up = 1;
  found->gave_up_in = control.call;
  found->limit_ns = control.limit_ns;
  found->peer = control.peer;
  found->channel = control.channel;
  found->step = control.step;
  found->wants_room = control.wants_room;
  found->sent = control.sent;
  found->taken = control.taken;
}

}  // namespace

bool gave_up(const DeviceConnections& connections, int rank) {
  return HostAtomics::load_acquire(connections.host_control(rank).gave_up) != 0;
}

Progress progress_of(const DeviceConnections& connections, int rank) {
  const cuda::Control& control = connections.host_control(rank);
  Progress found;
  for (int c = 0; c < connections.layout().counted_ctas(); ++c) {
    const std::uint64_t begun = word(control.progress[c].begun);
    found.begun += begun;
    found.over += std::min(begun, word(control.progress[c].done));
  }
  if (const auto newest = cuda::newest_launch(control.newest)) {
    found.digest = newest->digest;
    found.launch = newest->call;
    found.launches = newest->number;
  }
  add_report(control, &found);
  return found;
}

bool is_in_launch(const DeviceConnections& connections, int rank) {
  const cuda::Control& control = connections.host_control(rank);
  for (int c = 0; c < connections.layout().counted_ctas(); ++c)
    if (word(control.progress[c].begun) > word(control.progress[c].done)) return true;
  return false;
}

std::optional<Fault> kernel_fault(const DeviceConnections& connections, int rank) {
  if (!gave_up(connections, rank)) return std::nullopt;
  FailureDetector detector({rank, connections.layout().ranks()});
  for (int r = 0; r < connections.layout().ranks(); ++r)
    detector.report(r, progress_of(connections, r));
  return detector.verdict();
}

std::optional<Fault> count_fault(std::span<const cuda::Control> reports,
                                 std::span<const int> ranks) {
  FailureDetector detector({ranks.front(), static_cast<int>(ranks.size())});
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    Progress now;
    add_report(reports[place], &now);
    detector.report(ranks[place], now);
  }
  return detector.verdict();
}

}  // namespace rondo::gpu
