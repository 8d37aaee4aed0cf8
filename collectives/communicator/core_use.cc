// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/core_use.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>

#include "base/env.h"
#include "base/log.h"
#include "collectives/context/agreed_facts.h"
#include "kernels/host/core_distance.h"
#include "topology/cpu_budget.h"
#include "topology/cpu_places.h"

namespace rondo {
namespace {

// Ranks that share cores yield them to each other; all other ranks of a core may have work.
Waiter::Budget wait_budget(double core_share) {
  if (core_share <= 1) return {};
  return {50, 2000, static_cast<std::int64_t>(1e6 * std::max(core_share - 1, 1.0))};
}

// Ranks of a host that have a core each keep off each other's.
void choose_core(CommunicatorState& state, std::span<const InitRecord> records) {
  host::HostRank& view = state.host;
  if (view.size < 2) return;
  view.core.enable_publishing();
  if (state.facts.crowded()) {
    view.core.enable();
  } else if (env::get_bool("RONDO_NUDGE")) {
    static const auto& places = *new auto(topology::cpu_places(topology::affinity_cpus()));
    view.nudge.enable(places);
  }
  if (view.rank != 0 || ::sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  const std::string complaint =
      one_core_complaint(records, state.members.local_ranks, topology::affinity_cpus());
  static std::atomic<bool> complained{false};
  if (!complaint.empty() && !complained.exchange(true)) RONDO_WARN("{}", complaint);
}

// Ranks that share cores keep each other from answering; to them distance is the least cost. A rank
// whose stores are fixed answers too: its peers may not know theirs.
void choose_stores(CommunicatorState& state, const std::string& stores) {
  host::HostRank& view = state.host;
  const bool measures = !state.facts.crowded() && !state.on_device;
  std::vector<double> distances(view.peers.size());
  if (measures) distances = host::CoreDistance<>(view.peers, view.rank).to_all();
  const auto choose = [&](host::StoreChoice& choice, double ns) {
    return stores == "auto" ? choice.start(ns) : choice.fix(stores == "1");
  };
  for (const double ns : distances) choose(view.stores_to.emplace_back(), ns);
  const double ns = *std::max_element(distances.begin(), distances.end());
  choose(view.stores, ns);
  if (stores != "auto") return;
  if (ns > 0)
    RONDO_INFO(kInit, "rank {}: a cache line needs {:.0f} ns to the farthest rank of this host{}",
               state.members.rank, ns,
               view.stores.past(1 << 20) ? ": data for it are stored past the caches" : "");
}

// Helpers belong to the n-th rank of this process; ranks of a process call at the same time.
void take_helpers(CommunicatorState& state, std::span<const InitRecord> records) {
  int threads = state.options.threads;
  if (threads == 0) {
    const RankThreads found =
        rank_threads(records, state.members.rank, env::get_int("RONDO_THREADS"));
    threads = found.threads;
    static std::atomic<bool> complained{false};
    if (!found.complaint.empty() && !complained.exchange(true)) RONDO_WARN("{}", found.complaint);
  }
  assert(threads >= 0 && "the C API and rank_threads() check it");
  if (threads < 2) return;
  const auto& process_of = state.members.group->process_of_member;
  const auto own = process_of.begin() + state.host.rank;
  const auto number = static_cast<int>(std::count(process_of.begin(), own, *own));
  state.host.sharing.set_helpers(host::Helpers::of_rank(number), threads);
  RONDO_INFO(kInit, "rank {}: {} threads share its large copies and sums", state.members.rank,
             threads);
}

}  // namespace

void use_cores(CommunicatorState& state, std::span<const InitRecord> records,
               const std::string& stores) {
  assert(!state.host.peers.empty() && (stores == "auto" || stores == "0" || stores == "1"));
  choose_core(state, records);
  choose_stores(state, stores);
  state.engine.set_budget(wait_budget(state.facts.core_share));
  take_helpers(state, records);
}

}  // namespace rondo
