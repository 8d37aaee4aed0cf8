// SPDX-License-Identifier: Apache-2.0
#include "collectives/watchdog/withdrawal.h"

#include <cassert>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/faults/rank_report.h"
#include "collectives/faults/standstill.h"
#include "kernels/host/touch.h"
#include "transport/shm/arena.h"

namespace rondo {
namespace {

constexpr std::int64_t kGrace = 1'000'000'000;    // longest wait for peers in other processes
constexpr std::int64_t kLookPeriod = 10'000'000;  // between checks of /proc

struct Part {
  const void* memory;
  std::size_t bytes;
};

// The complete input and output of a call that other ranks may access.
Part input_of(const host::HostCall& call, int ranks) {
  const Collective which = call.record.collective;
  const bool blocks = which == Collective::kReduceScatter || which == Collective::kAllToAll ||
                      which == Collective::kScatter;
  return {call.input, elements_of(call.record) * size_of(call.type) * (blocks ? ranks : 1)};
}

Part output_of(const host::HostCall& call, int ranks) {
  const Collective which = call.record.collective;
  const bool blocks = which == Collective::kAllGather || which == Collective::kAllToAll ||
                      which == Collective::kGather;
  return {call.output, elements_of(call.record) * size_of(call.type) * (blocks ? ranks : 1)};
}

}  // namespace

void Withdrawal::cut_off_exposed(const host::HostCall& call, std::uint32_t exposure) {
  if (!touches_may_go_on_) return;
  const Part parts[] = {input_of(call, members_.size), output_of(call, members_.size)};
  for (const std::uint32_t side : {kExposesInput, kExposesOutput}) {
    if (!(exposure & side)) continue;
    const Part& part = parts[side == kExposesOutput];
    if (const Status cut = cut_off(part.memory, part.bytes); !cut.ok())
      RONDO_WARN("rank {}: a peer that makes no progress may still access a buffer of {}: {}",
                 members_.rank, call_.text(), cut.error().text);
  }
}

std::uint32_t Withdrawal::exposable(const host::HostCall& call, std::uint32_t exposure) const {
  const Part input = input_of(call, members_.size), output = output_of(call, members_.size);
  if (!is_reachable(input.memory, input.bytes)) exposure &= ~kExposesInput;
  if (!is_reachable(output.memory, output.bytes)) exposure &= ~kExposesOutput;
  return exposure;
}

bool Withdrawal::still_whole(const host::HostCall& call) {
  const Part output = output_of(call, members_.size);
  if (is_reachable(output.memory, output.bytes)) return true;
  faults_.raise(faults_.make(
      StatusCode::kRemoteError, members_.rank,
      fmt::format("rank {}: the output of {} was made inaccessible to its peers, because a rank of "
                  "another communicator still uses it and makes no progress",
                  members_.rank, call_.text())));
  return false;
}

bool Withdrawal::await_touches(const WaitSite& site, bool first) {
  assert(site.needs != nullptr);
  const std::int64_t now = now_ns();
  if (first) {
    began_ns_ = now;
  } else if (now - last_look_ns_ < kLookPeriod) {
    return true;
  }
  last_look_ns_ = now;
  bool own = false, others = false;
  touches_may_go_on_ = false;
  for (int r = 0; r < host_.size; ++r) {
    if (!site.needs(site.self, members_.local_ranks[r])) continue;
    own |= host_.peers[r].same_process;
    const RankReport::Condition condition = condition_of(members_, host_, r);
    if (host_.peers[r].same_process || condition == RankReport::kEnded) continue;
    touches_may_go_on_ = true;
    others |= condition != RankReport::kStopped;
  }
  const std::int64_t waited = now - began_ns_;
  if (!own) return others && waited < kGrace;
  if (static_cast<double>(waited) < context_.timeout_seconds.load(std::memory_order_relaxed) * 1e9)
    return true;
  RONDO_WARN("rank {}: a rank of this process still uses a buffer of {} and makes no progress",
             members_.rank, call_.text());
  return false;
}

Status Withdrawal::cut_off(const void* memory, std::size_t bytes) {
  if (host::place_of(host_.arena, memory) == 0) return ok_status();
  RONDO_TRY(const auto arena, shm::Arena::of_process());
  return arena->cut_off(memory, bytes);
}

bool Withdrawal::is_reachable(const void* memory, std::size_t bytes) {
  const auto arena = shm::Arena::of_process();
  return arena.ok() && (*arena)->is_reachable(memory, bytes);
}

}  // namespace rondo
