// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/calls/call_run.h"

#include <algorithm>
#include <cassert>

#include "collectives/gpu/launch/call_steps.h"

namespace rondo::gpu {

bool CallRun::takes(const JointCall& call) const {
  if (calls_.empty()) return true;
  return call.plan.strategy == first().plan.strategy && calls_.size() < kMaxCalls &&
         on_the_same_streams(call) && fits(call);
}

void CallRun::add(const JointCall& call) {
  assert(calls_.size() < kMaxCalls);
  assert(calls_.empty() || first().plan.strategy == call.plan.strategy);
  calls_.push_back(&call);
  max_ctas_ = std::min(max_ctas_, call.max_ctas());
}

void CallRun::clear() {
  calls_.clear();
  max_ctas_ = kNoCtaLimit;
}

// Within a rank's group, equal stream handles name the same stream.
bool CallRun::on_the_same_streams(const JointCall& call) const {
  const auto same = [](const PostedCall& a, const PostedCall& b) {
    return a.call.stream == b.call.stream;
  };
  return std::equal(call.posted.begin(), call.posted.end(), first().posted.begin(), same);
}

bool CallRun::fits(const JointCall& call) const {
  const LaunchRow& row = launch_row(call.plan.strategy);
  if (row.fuses == nullptr) return false;
  const Fusion fusion = row.fuses(calls_, call, places_);
  return fusion != Fusion::kNone && !overlaps(call, fusion == Fusion::kApartFromAll);
}

// of_all: a launch touches the memory of all ranks, not only of its own device's ranks.
bool CallRun::overlaps(const JointCall& call, bool of_all) const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const JointCall* other) {
    for (int place = 0; place < places_; ++place) {
      const Sides own = sides_of(call, place);
      for (int peer = 0; peer < places_; ++peer)
        if ((of_all || peer == place) && overlap(own, sides_of(*other, peer))) return true;
    }
    return false;
  });
}

bool CallRun::overlap(const Sides& some, const Sides& others) {
  for (const Side& one : some)
    for (const Side& other : others)
      if ((one.written || other.written) && one.begin < other.end && other.begin < one.end)
        return true;
  return false;
}

// A buffer that a rank does not use has a null address here.
CallRun::Sides CallRun::sides_of(const JointCall& joint, int place) const {
  const Call& call = joint.posted[place].call;
  const std::uint64_t width = size_of(call.record.type), block = call.record.count * width;
  const Segments segments = segments_of(call.record.collective, ranks_);
  const auto side = [](const void* at, std::uint64_t bytes, bool written) {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    return Side{begin, at == nullptr ? begin : begin + bytes, written};
  };
  return {side(call.send, block * static_cast<std::uint64_t>(segments.sent), false),
          side(call.receive, block * static_cast<std::uint64_t>(segments.received), true),
          side(call.late_scalar, width, false)};
}

}  // namespace rondo::gpu
