// Taking back memory that peers of this host may still be reading or writing when a call has
// failed.
//
// A peer that runs ends what it touches in a moment. One that stands still may go on at any time,
// in the middle of a copy into a buffer that has been given back to the program: it must then find
// other memory there. The arena can do that for memory of ncclMemAlloc; other processes reach no
// other. Ranks of this process stand still only with all of it, or under a debugger.
#include <algorithm>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/watchdog/peer_words.h"
#include "collectives/watchdog/standstill.h"
#include "kernels/host/reach.h"
#include "transport/shm/arena.h"

namespace rondo {
namespace {

constexpr std::int64_t kGrace = 1'000'000'000;    // for peers in other processes
constexpr std::int64_t kLookPeriod = 10'000'000;  // between looks into /proc

struct Part {
  const void* memory;
  std::size_t bytes;
};

// A call's input and output, whole, as ranks of the communicator may touch them.
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

CommunicatorState& state_of(void* owner) { return *static_cast<CommunicatorState*>(owner); }

}  // namespace

void CommunicatorState::install_withdrawal() {
  host.await_touches = [](void* owner, const WaitSite& site, bool first) {
    return state_of(owner).await_touches(site, first);
  };
  host.cut_off = [](void* owner, const host::HostCall& call, std::uint32_t exposure) {
    CommunicatorState& state = state_of(owner);
    if (!state.touches_may_go_on) return;
    const Part parts[] = {input_of(call, state.size), output_of(call, state.size)};
    for (const std::uint32_t side : {kExposesInput, kExposesOutput}) {
      if (!(exposure & side)) continue;
      const Part& part = parts[side == kExposesOutput];
      if (const Done cut = state.cut_off(part.memory, part.bytes); !cut.ok())
        RONDO_WARN("rank {}: a peer that stands still may yet touch a buffer of {}: {}", state.rank,
                   state.current_call(), cut.error().text);
    }
  };
  host.exposable = [](void* owner, const host::HostCall& call, std::uint32_t exposure) {
    const CommunicatorState& state = state_of(owner);
    const Part input = input_of(call, state.size), output = output_of(call, state.size);
    if (!state.is_reachable(input.memory, input.bytes)) exposure &= ~kExposesInput;
    if (!state.is_reachable(output.memory, output.bytes)) exposure &= ~kExposesOutput;
    return exposure;
  };
  host.still_whole = [](void* owner, const host::HostCall& call) {
    CommunicatorState& state = state_of(owner);
    const Part output = output_of(call, state.size);
    if (state.is_reachable(output.memory, output.bytes)) return true;
    state.raise(state.make_fault(
        Status::kRemoteError, state.rank,
        fmt::format("rank {}: in {} its output was taken out of its peers' reach, because a rank "
                    "of another communicator stands still in it",
                    state.rank, state.current_call())));
    return false;
  };
}

// Peers that have ended, or are seen to stand still, are not waited for; others for a moment.
bool CommunicatorState::await_touches(const WaitSite& site, bool first) {
  const std::int64_t now = now_ns();
  if (first) {
    withdrawal_began_ns = now;
  } else if (now - last_check_ns < kLookPeriod) {
    return true;
  }
  last_check_ns = now;
  bool own = false, others = false;
  touches_may_go_on = false;
  for (int r = 0; r < host.size; ++r) {
    if (!site.needs(site.self, local_ranks[r])) continue;
    own |= host.peers[r].same_process;
    if (host.peers[r].same_process || has_ended(group->processes[group->process_of_member[r]]))
      continue;
    touches_may_go_on = true;
    others |= !stands_still(r);
  }
  const std::int64_t waited = now - withdrawal_began_ns;
  if (!own) return others && waited < kGrace;
  if (static_cast<double>(waited) < timeout_seconds.load(std::memory_order_relaxed) * 1e9)
    return true;
  RONDO_WARN("rank {}: a rank of this process stands still in a buffer of {}", rank,
             current_call());
  return false;
}

Done CommunicatorState::cut_off(const void* memory, std::size_t bytes) {
  if (host::place_of(host.arena, memory) == 0) return done();
  RONDO_TRY(const auto arena, shm::Arena::of_process());
  return arena->cut_off(memory, bytes);
}

bool CommunicatorState::is_reachable(const void* memory, std::size_t bytes) const {
  const auto arena = shm::Arena::of_process();
  return arena.ok() && (*arena)->is_reachable(memory, bytes);
}

bool CommunicatorState::stands_still(int local) const {
  if (!group || host.peers[local].same_process) return false;
  const auto& neighbour = group->processes[group->process_of_member[local]].neighbour;
  return neighbour && is_standing_still(pid_of(neighbour->pidfd()));
}

}  // namespace rondo
