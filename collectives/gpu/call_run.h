// CallRun: consecutive collectives of one group that run as one launch on every device: its kernel
// works through a list.
//
// Every process decides for itself what it fuses, also by what no other knows: its streams, graphs,
// where its buffers lie. That is sound because peers cannot tell. What a call does on a channel
// (slots, rounds, counters, barriers) follows from its own plan and from the calls before it; it is
// counted and told of by call, not by launch (launch_words.h), and announced by call. So ranks that
// fuse, ranks that do not and ranks that cut their lists elsewhere play the same calls together, in
// replays, too. There is no deadlock: a channel plays calls in their order, and a launch begins
// once the ones before it are over; so the earliest call that is not over anywhere is played, or
// about to be, on all channels of all ranks.
// A call that is first tried in place (in_place_calls.h) is launched alone.
// Within a launch nothing orders one CTA's calls behind another CTA's. So a run takes only calls
// that touch nothing that another one of it writes, of the same ranks' memory; what overlaps is
// launched behind it.
// Cost: comparisons of a call's buffers with those of all calls of the run. A run as long as one
// before allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/gpu/launch/strategies.h"
#include "collectives/gpu/posted_calls.h"
#include "collectives/gpu/team_devices.h"

namespace rondo::gpu {

class CallRun {
 public:
  explicit CallRun(const TeamDevices& devices) : CallRun(devices, devices.ranks()) {}
  // ranks: of the communicator, where `devices` know those of this process alone.
  CallRun(const TeamDevices& devices, int ranks) : devices_(devices), ranks_(ranks) {}

  // Whether the call may be in one launch with those that are there; else it begins another run.
  bool takes(const JointCall& call, const PlannedCall& planned) const;
  void add(const JointCall& call, PlannedCall planned);
  void clear();
  // For the buffers of a call that is planned next: memory of one that is over, if there is any.
  std::vector<Buffers> spare_buffers();

  // Fewer than a rank may run ahead of others that announce calls.
  static constexpr std::size_t kMaxCalls = 64;

  bool empty() const { return calls_.empty(); }
  std::span<const PlannedCall> calls() const { return calls_; }
  const JointCall& first() const { return *joint_.front(); }  // streams are the same for all
  int max_ctas() const { return max_ctas_; }                  // that all ranks of all calls allow

 private:
  // Memory that a rank's part of a call touches; none where begin is end.
  struct Side {
    std::uintptr_t begin, end;
    bool written;
  };
  using Sides = std::array<Side, 3>;

  bool on_the_same_streams(const JointCall& call) const;
  bool fits(const JointCall& call, const PlannedCall& planned) const;
  bool overlaps(const JointCall& call, bool of_all) const;
  static bool overlap(const Sides& some, const Sides& others);
  Sides sides_of(const JointCall& joint, int rank) const;

  const TeamDevices& devices_;
  const int ranks_;
  std::vector<const JointCall*> joint_;
  std::vector<PlannedCall> calls_;
  std::vector<std::vector<Buffers>> spares_;
  int max_ctas_ = kNoCtaLimit;
};

}  // namespace rondo::gpu
