#include "collectives/gpu/kernel_watch.h"

#include <fmt/core.h>

#include "base/atomics.h"
#include "collectives/watchdog/fault_texts.h"
#include "collectives/watchdog/peer_words.h"

namespace rondo::gpu {
namespace {

std::uint64_t word(const std::uint64_t& from) { return HostAtomics::load_acquire(from); }

// Calls visit(number, channel) for every launch that the rank is in.
template <class Visit>
void for_launches(const DeviceConnections& connections, int rank, Visit&& visit) {
  const cuda::Control& control = connections.host_control(rank);
  for (int c = 0; c < connections.layout().shape().channels; ++c) {
    const std::uint64_t begun = word(control.progress[c].begun);
    if (begun > word(control.progress[c].done)) visit(begun, c);
  }
}

template <class Behind>
std::vector<int> ranks_behind(const DeviceConnections& connections, int rank, Behind&& behind) {
  std::vector<int> found;
  for (int peer = 0; peer < connections.layout().ranks(); ++peer) {
    bool is_behind = false;
    const cuda::Control& theirs = connections.host_control(peer);
    for_launches(connections, rank, [&](std::uint64_t number, int channel) {
      is_behind = is_behind || behind(theirs.progress[channel]) < number;
    });
    if (is_behind && peer != rank) found.push_back(peer);
  }
  return found;
}

}  // namespace

bool is_in_launch(const DeviceConnections& connections, int rank) {
  bool inside = false;
  for_launches(connections, rank, [&](std::uint64_t, int) { inside = true; });
  return inside;
}

// The call of the newest launch stands still until the next but one; so it is read again where one
// has begun meanwhile.
NewestLaunch newest_launch_of(const DeviceConnections& connections, int rank) {
  constexpr int kMostTries = 100;
  const cuda::Control& control = connections.host_control(rank);
  for (int i = 0; i < kMostTries; ++i) {
    NewestLaunch found{word(control.progress[0].begun), {}, 0};
    if (found.number == 0) return {};
    found.digest = word(control.begun_digest[found.number % 2]);
    found.call = load_record(control.begun_call[found.number % 2]);
    HostAtomics::fence_seq_cst();
    if (word(control.progress[0].begun) == found.number) return found;
  }
  return {};
}

bool is_newest_named(const DeviceConnections& connections, int rank) {
  const cuda::ChannelProgress& first = connections.host_control(rank).progress[0];
  return word(first.begun) > word(first.done);
}

CallRecord newest_launch(const DeviceConnections& connections, int rank) {
  return newest_launch_of(connections, rank).call;
}

std::vector<int> ranks_not_come(const DeviceConnections& connections, int rank) {
  return ranks_behind(connections, rank,
                      [](const cuda::ChannelProgress& of) { return word(of.begun); });
}

std::vector<int> ranks_not_over(const DeviceConnections& connections, int rank) {
  return ranks_behind(connections, rank,
                      [](const cuda::ChannelProgress& of) { return word(of.done); });
}

int rank_that_differs(const DeviceConnections& connections, int rank) {
  const NewestLaunch mine = newest_launch_of(connections, rank);
  if (mine.number == 0) return -1;
  for (int peer = 0; peer < connections.layout().ranks(); ++peer)
    if (const NewestLaunch theirs = newest_launch_of(connections, peer);
        theirs.number == mine.number &&
        (!(theirs.call == mine.call) || theirs.digest != mine.digest))
      return peer;
  return -1;
}

std::uint64_t kernels_moved(const DeviceConnections& connections) {
  std::uint64_t mixed = 0;
  for (int r = 0; r < connections.layout().ranks(); ++r)
    for (int c = 0; c < connections.layout().shape().channels; ++c) {
      const cuda::ChannelProgress& at = connections.host_control(r).progress[c];
      mixed = (mixed ^ word(at.begun)) * 0x9e3779b97f4a7c15ULL;
      mixed = (mixed ^ word(at.done)) * 0x9e3779b97f4a7c15ULL;
    }
  return mixed;
}

std::optional<KernelFault> kernel_fault(const DeviceConnections& connections, int rank,
                                        double seconds) {
  const cuda::Control& control = connections.host_control(rank);
  if (HostAtomics::load_acquire(control.gave_up) == 0) return std::nullopt;
  const std::vector<int> missing = ranks_not_come(connections, rank);
  return KernelFault{
      missing.empty() ? control.peer : missing.front(), control.call,
      fault_texts::timed_out_in_kernel(
          {rank, control.peer, control.channel, control.step, control.wants_room != 0, seconds},
          control.call, missing)};
}

}  // namespace rondo::gpu
