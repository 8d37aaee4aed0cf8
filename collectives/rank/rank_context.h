// SPDX-License-Identifier: Apache-2.0
// RankContext: state shared by all parts of a communicator's rank: its members, the host view, the
// call in progress, the fault, and the links to ranks of other hosts.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/seconds.h"
#include "collectives/context/rank_placement.h"
#include "collectives/faults/fault_state.h"
#include "collectives/faults/peer_words.h"
#include "collectives/faults/progress.h"
#include "collectives/planner/planner.h"
#include "collectives/rank/connections.h"
#include "collectives/rank/remote_ranks.h"
#include "kernels/host/host_rank.h"
#include "transport/shm/host_segment.h"

namespace rondo {

namespace profiler {
class CallEvents;
}

struct RankContext {
  RankContext() = default;
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  Membership members;
  host::HostRank host;
  CurrentCall call{host};
  FaultState faults{members, host, call};
  RemoteRanks remote{members, host, call, faults};
  std::unique_ptr<Connections> connections;
  PlanFacts facts;
  std::atomic<double> timeout_seconds{600};
  bool waits_for_ever = false;  // a rank on a GPU whose kernels have no limit
  bool on_device = false;
  profiler::CallEvents* events = nullptr;  // for a profiler plugin; null: there is none
  shm::ActivityLine* activity = nullptr;   // of this rank; null until its host view is known

  // Of calls on host memory.
  profiler::CallEvents* host_events() const { return on_device ? nullptr : events; }

  // Counts calls that the rank enters, for status queries. One thread at a time.
  void count_calls(Collective which, std::uint64_t calls = 1) {
    const int kind = static_cast<int>(which) - 1;
    if (activity == nullptr || kind < 0 || kind >= shm::ActivityLine::kCounted) return;
    std::uint64_t& counter = activity->calls[kind];
    HostAtomics::store_relaxed(counter, HostAtomics::load_relaxed(counter) + calls);
  }

  // For status queries: what the rank's kernels and streams wait for. One thread at a time.
  void show_device_wait(std::uint64_t begun, const std::optional<gpu::LongWait>& wait) const {
    if (activity == nullptr) return;
    shm::ActivityLine::Device& line = activity->device;
    HostAtomics::store_relaxed(line.begun, begun);
    if (wait) store_record(line.call, wait->call);
    if (wait) HostAtomics::store_relaxed(line.waiting_for, wait->awaited);
    const std::int64_t now = wait ? now_ns() : 0;
    HostAtomics::store_relaxed(line.wait_began_ns, wait ? now - wait->quiet_ns : 0);
    HostAtomics::store_release(line.wait_seen_ns, now);
  }

  // Maximum time that a call on the host waits without progress.
  double wait_limit_seconds() const {
    constexpr double kForEver = 365.0 * 24 * 3600;
    return waits_for_ever ? kForEver : timeout_seconds.load(std::memory_order_relaxed);
  }
};

// Base class of a rank's parts: gives them the same names for the shared state.
class RankPart {
 protected:
  explicit RankPart(RankContext& context)
      : context_(context),
        members_(context.members),
        host_(context.host),
        call_(context.call),
        faults_(context.faults),
        remote_(context.remote),
        connections_(context.connections),
        facts_(context.facts) {}

  RankContext& context_;
  const Membership& members_;
  host::HostRank& host_;
  CurrentCall& call_;
  FaultState& faults_;
  RemoteRanks& remote_;
  const std::unique_ptr<Connections>& connections_;
  const PlanFacts& facts_;
};

}  // namespace rondo
