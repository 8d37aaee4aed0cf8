#include "collectives/communicator.h"

#include <algorithm>
#include <cstring>

#include "base/env.h"
#include "collectives/communicator_state.h"
#include "collectives/fiber_group.h"

namespace rondo {

CommOptions CommOptions::from_environment() {
  CommOptions options;
  options.timeout_seconds = env::get_double("RONDO_TIMEOUT");
  options.init_timeout_seconds = env::get_double("RONDO_INIT_TIMEOUT");
  options.reproducible = env::get_bool("RONDO_REPRODUCIBLE");
  return options;
}

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}

Communicator::~Communicator() {
  if (!state_->host.peers.empty())
    HostAtomics::store_release(state_->host.self().progress->state, kLeft);
}

int Communicator::rank() const { return state_->rank; }
int Communicator::size() const { return state_->size; }
const CommOptions& Communicator::options() const { return state_->options; }
void Communicator::set_timeout(double seconds) { state_->timeout_seconds.store(seconds); }
Communicator::Choice Communicator::last_plan() const { return state_->last_plan; }

Result<Communicator::Choice> Communicator::explain(const CallRecord& record) const {
  RONDO_TRY(const Plan plan, make_plan(state_->facts, record));
  return Choice{plan.algorithm, plan.protocol, plan.rounds.size()};
}

Communicator::MemoryUse Communicator::memory() const {
  MemoryUse use;
  use.shared_bytes = state_->committed_bytes;
  use.private_bytes = sizeof(CommunicatorState) +
                      state_->host.peers.size() * (sizeof(PeerPort) + 3 * sizeof(std::uint64_t)) +
                      state_->ranks.size() * sizeof(RankFacts);
  return use;
}

std::string Communicator::describe_ranks() const { return state_->describe_ranks(); }

// ---- entering and leaving ----

Done CommunicatorState::enter() {
  if (made_in != fork_generation())
    return fail(Status::kInvalidUsage,
                "this communicator belongs to the parent process: after fork, create a new one");
  if (inside.exchange(true, std::memory_order_acquire))
    return fail(Status::kInvalidUsage,
                "another thread is inside a call of this communicator: one thread at a time");
  if (const int how = ended.load(std::memory_order_acquire); how != kRunning) {
    leave();
    return fail(Status::kInvalidUsage, "communicator was {}",
                how == kAborted ? "aborted by this process" : "revoked");
  }
  if (faulted.load(std::memory_order_acquire) || adopt_peer_fault()) {
    leave();
    std::lock_guard lock(fault_mutex);
    return fault->error();
  }
  return done();
}

void CommunicatorState::leave() { inside.store(false, std::memory_order_release); }

// ---- running calls ----

Done CommunicatorState::why_it_ended() {
  if (const int how = ended.load(); how != kRunning)
    return fail(Status::kInvalidUsage, "communicator was {}",
                how == kAborted ? "aborted by this process" : "revoked");
  std::lock_guard lock(fault_mutex);
  if (fault) return fault->error();
  return fail(Status::kInternalError, "rank {} left call {} without a fault", rank, host.sequence);
}

Done CommunicatorState::run_group(std::span<const Call> calls) {
  bool messages = false;
  for (const Call& call : calls) {
    if (is_point_to_point(call)) {
      messages = true;
      continue;
    }
    RONDO_CHECK_OK(run_collective(call));
  }
  return messages ? run_point_to_point(calls) : done();
}

Done Communicator::run(std::span<const Call> calls) {
  RONDO_CHECK_OK(state_->enter());
  state_->install_supervisor();
  Done result = state_->run_group(calls);
  state_->leave();
  return result;
}

Done Communicator::run_together(std::span<const Work> works) {
  if (works.size() == 1) return works[0].communicator->run(works[0].calls);
  std::vector<Done> results(works.size());
  std::vector<FiberGroup::Task> tasks;
  for (std::size_t i = 0; i < works.size(); ++i) {
    CommunicatorState& state = *works[i].communicator->state_;
    tasks.push_back({[&, i] { results[i] = works[i].communicator->run(works[i].calls); },
                     state.host.self().parked, state.host.self().bell});
  }
  FiberGroup::run(tasks);
  for (Done& result : results)
    if (!result.ok()) return std::move(result);
  return done();
}

std::vector<int> Communicator::ended_ranks() { return state_->ended_ranks(); }

std::optional<Fault> Communicator::fault() {
  if (!state_->faulted.load(std::memory_order_acquire) && !state_->adopt_peer_fault())
    return std::nullopt;
  std::lock_guard lock(state_->fault_mutex);
  return state_->fault;
}

// ---- ending ----

namespace {
void wait_until_left(const std::atomic<bool>& inside) {
  while (inside.load(std::memory_order_acquire)) sched_yield();  // a woken waiter leaves at once
}
}  // namespace

void Communicator::abort() {
  CommunicatorState& state = *state_;
  if (state.ended.exchange(CommunicatorState::kAborted) == CommunicatorState::kAborted) return;
  if (!state.host.peers.empty()) {
    state.raise(state.make_fault(Status::kRemoteError, state.rank,
                                 fmt::format("rank {} aborted the communicator", state.rank)));
    state.wake_peers();
  }
  wait_until_left(state.inside);
}

void Communicator::revoke() {
  CommunicatorState& state = *state_;
  int running = CommunicatorState::kRunning;
  if (!state.ended.compare_exchange_strong(running, CommunicatorState::kRevoked)) return;
  if (!state.host.peers.empty()) state.wake_peers();
  wait_until_left(state.inside);
}

}  // namespace rondo
