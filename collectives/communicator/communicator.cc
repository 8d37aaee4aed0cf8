#include "collectives/communicator/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/asymmetric_fence.h"
#include "base/env.h"
#include "base/log.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/staging/hosted_rank.h"
#include "collectives/host/fiber_group.h"
#include "collectives/host/host_stream.h"

namespace rondo {

CommOptions CommOptions::from_environment() {
  CommOptions options;
  options.timeout_seconds = env::get_seconds("RONDO_TIMEOUT");
  options.init_timeout_seconds = env::get_seconds("RONDO_INIT_TIMEOUT");
  options.reproducible = env::get_bool("RONDO_REPRODUCIBLE");
  return options;
}

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}

Communicator::~Communicator() {
  if (state_->host.peers.empty() || state_->forked()) return;
  if (state_->rma)
    for (Window& window : state_->rma->windows) state_->withdraw_window(window);
  HostAtomics::store_release(state_->host.self().progress->state, kLeft);
}

int Communicator::rank() const { return state_->rank; }
int Communicator::size() const { return state_->size; }
const CommOptions& Communicator::options() const { return state_->options; }
const bootstrap::Secret& Communicator::secret() const { return state_->secret; }
void Communicator::set_timeout(double seconds) { state_->timeout_seconds.store(seconds); }
Communicator::Choice Communicator::last_plan() const { return state_->last_plan; }

bool Communicator::can_run(const CallRecord& record) const {
  if (state_->team) return state_->team->can_run(record);
  if (state_->hosted && state_->hosted->runs_as_kernel(record)) return true;
  return make_plan(state_->facts, record).ok();
}

Communicator::MemoryUse Communicator::memory() const {
  MemoryUse use;
  use.shared_bytes = state_->committed_bytes + state_->connections->committed_bytes();
  use.private_bytes = sizeof(CommunicatorState) +
                      state_->host.peers.size() * (sizeof(PeerPort) + 3 * sizeof(std::uint64_t)) +
                      state_->ranks.size() * sizeof(RankFacts);
  if (state_->rank == 0 && state_->team && state_->team->processes() != nullptr)
    use.device_bytes = state_->team->processes()->device_bytes();
  for (const auto& part : {state_->on_gpu, state_->of_leaders}) {
    if (!part) continue;
    const MemoryUse its = part->memory();
    use.shared_bytes += its.shared_bytes;
    use.private_bytes += its.private_bytes;
    use.device_bytes += its.device_bytes;
  }
  return use;
}

std::string Communicator::describe_ranks() const { return state_->describe_ranks(); }

// ---- entering and leaving ----

Done CommunicatorState::enter() {
  if (forked())
    return fail(Status::kInvalidUsage,
                "this communicator belongs to the parent process: after fork, create a new one");
  // The C API lets calls in one by one (CallOrder); this look catches other callers' mistake
  // most of the time, without an atomic exchange in every call.
  if (inside.load(std::memory_order_relaxed))
    return fail(Status::kInvalidUsage,
                "another thread is inside a call of this communicator: one thread at a time");
  inside_thread.store(pthread_self(), std::memory_order_relaxed);
  store_before_loads(inside, true);
  if (const int how = ended.load(std::memory_order_seq_cst); how != kRunning) {
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

// The fault of a peer that has withdrawn from the call may be a moment from being written.
Done CommunicatorState::adopted_fault() {
  constexpr int kMoments = 1000;
  for (int moment = 0; moment < kMoments; ++moment) {
    if (faulted.load(std::memory_order_acquire) || adopt_peer_fault()) {
      std::lock_guard lock(fault_mutex);
      return fault->error();
    }
    usleep(1000);
  }
  return fail(Status::kInternalError, "rank {} left {} without a fault", rank, current_call());
}

void CommunicatorState::leave() { inside.store(false, std::memory_order_release); }

// ---- running calls ----

// On a stream's thread the core belongs to what the program computes meanwhile: sleep soon.
void CommunicatorState::choose_budget(bool beside) {
  constexpr Waiter::Budget kBesideTheProgram{200, 1};
  if (beside == beside_the_program) return;
  beside_the_program = beside;
  host.waiter.set_budget(beside ? kBesideTheProgram : alone_budget);
}

Done CommunicatorState::why_it_ended() {
  if (const int how = ended.load(); how != kRunning)
    return fail(Status::kInvalidUsage, "communicator was {}",
                how == kAborted ? "aborted by this process" : "revoked");
  return adopted_fault();
}

Done CommunicatorState::run_group(std::span<const Call> calls) {
  bool messages = false;
  bool one_sided = false;
  for (std::size_t i = 0; i < calls.size();) {
    if (is_point_to_point(calls[i])) {
      messages = true;
      ++i;
    } else if (is_one_sided(calls[i])) {
      one_sided = true;
      ++i;
    } else if (const std::size_t fused = collect_fusable(calls.subspan(i)); fused > 1) {
      messages |= segments.size() < fused;  // those in between, perhaps
      one_sided |= segments.size() < fused;
      RONDO_CHECK_OK(run_fused(calls[i]));
      i += fused;
    } else {
      RONDO_CHECK_OK(run_collective(calls[i]));
      ++i;
    }
  }
  if (messages) RONDO_CHECK_OK(run_point_to_point(calls));
  return one_sided ? run_one_sided(calls) : done();
}

void CommunicatorState::fail_call(Error& error) {
  (void)guarded("a call", [&] {
    error.text = fmt::format("{} failed in {}: {}", rank_name(rank), current_call(), error.text);
    return done();
  }).ok();
  raise(make_fault(error.status, rank, copy_of(error).text));
}

Done Communicator::run(std::span<const Call> calls) {
  RONDO_CHECK_OK(state_->enter());
  Done result = state_->or_fault([&] {
    state_->install_supervisor(FiberGroup::current() != nullptr);
    state_->choose_budget(HostStream::serves_here());
    return state_->run_group(calls);
  });
  state_->leave();
  return result;
}

Done Communicator::run_here(const Call& call) {
  RONDO_CHECK_OK(state_->enter());
  state_->install_supervisor(false);
  state_->choose_budget(false);
  Done result = state_->or_fault([&] { return state_->run_collective(call); });
  state_->leave();
  return result;
}

Done Communicator::run_together(std::span<const Work> works) {
  if (works.size() == 1) return works[0].communicator->run(works[0].calls);
  std::vector<Done> results(works.size());
  std::vector<FiberGroup::Task> tasks;
  for (std::size_t i = 0; i < works.size(); ++i) {
    CommunicatorState& state = *works[i].communicator->state_;
    tasks.push_back({[&, i] {
                       results[i] = guarded("a call of a group", [&] {
                         return works[i].communicator->run(works[i].calls);
                       });
                     },
                     state.host.self().parked, state.host.self().bell});
  }
  FiberGroup::run(tasks);
  for (Done& result : results)
    if (!result.ok()) return std::move(result);
  return done();
}

std::vector<int> Communicator::ended_ranks() { return state_->ended_ranks(); }

std::optional<Fault> Communicator::fault() {
  if (state_->forked()) {
    Fault foreign;
    foreign.status = Status::kInvalidUsage;
    foreign.rank = rank();
    foreign.text = "this communicator belongs to the parent process: after fork, create a new one";
    return foreign;
  }
  if (!state_->faulted.load(std::memory_order_acquire) && !state_->adopt_kernel_fault() &&
      !state_->adopt_peer_fault())
    return std::nullopt;
  std::lock_guard lock(state_->fault_mutex);
  return state_->fault;
}

// ---- ending ----

void CommunicatorState::end_calls(const char* what) {
  Fault told;
  if (!host.peers.empty()) {
    told.status = Status::kRemoteError;
    told.rank = told.culprit = rank;
    told.sequence = HostAtomics::load_relaxed(host.self().steps->sequence);
    (void)guarded("ending calls", [&] {
      told.text = fmt::format("rank {} {} the communicator", rank, what);
      raise(told, false);
      return done();
    }).ok();
    wake_peers();
  }
  // Whoever is inside leaves at its next look, at most 100 ms from now and after what it is just
  // copying. Should it never run again (its thread was cancelled, or it is the one that this signal
  // handler or fiber interrupted), it must not hold up its end.
  constexpr int kYields = 200, kNaps = 20'000;
  heavy_fence();
  for (int turn = 0; inside.load(std::memory_order_seq_cst); ++turn) {
    if (pthread_equal(inside_thread.load(std::memory_order_relaxed), pthread_self())) return;
    if (turn < kYields) {
      sched_yield();
    } else if (turn < kYields + kNaps) {
      usleep(500);
    } else {
      RONDO_WARN("rank {} {} the communicator, but a thread is still inside a call of it", rank,
                 what);
      return;
    }
  }
  tell_other_hosts(told);
}

void Communicator::abort() {
  CommunicatorState& state = *state_;
  if (state.forked()) return;
  if (state.ended.exchange(CommunicatorState::kAborted) == CommunicatorState::kAborted) return;
  state.end_calls("aborted");
}

void Communicator::revoke() {
  CommunicatorState& state = *state_;
  if (state.forked()) return;
  int running = CommunicatorState::kRunning;
  if (!state.ended.compare_exchange_strong(running, CommunicatorState::kRevoked)) return;
  state.end_calls("revoked");
}

}  // namespace rondo
