// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <numeric>

#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/communicator/ordered_enqueue.h"
#include "collectives/communicator/shrink.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/context/reach_team.h"
#include "collectives/faults/peer_words.h"
#include "collectives/host/host_stream.h"
#include "collectives/planner/wire_rates.h"
#include "collectives/rank/fiber_group.h"
#include "transport/networks/open_network.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 at -O3 warns wrongly about a vector that has just grown.
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

namespace rondo {
namespace {

using Blob = std::vector<std::byte>;

// Once per process, on stderr: stdout belongs to the program.
void log_banner(const CommunicatorState& state) {
  const bool wanted = log::wanted(log::Level::kVersion) && !log::wanted(log::Level::kWarn);
  static std::atomic<bool> reported{false};
  if (!wanted || state.members.rank != 0 || reported.exchange(true)) return;
  const int ranks = state.members.size, hosts = state.facts.hosts;
  std::string ways = state.on_device ? "GPUs" : hosts < ranks ? "shared memory" : "";
  if (hosts > 1) ways += (ways.empty() ? "" : " and ") + state.network;
  std::string line = fmt::format("rondo {}: {} on {}", RONDO_VERSION, counted(ranks, "rank"),
                                 counted(hosts, "host"));
  line += (ways.empty() ? "" : ", ") + ways + '\n';
  [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
}

// For metrics.
void show_device_memory(const CommunicatorState& state) {
  if (!state.device || state.activity == nullptr) return;
  const gpu::GpuMemoryUse use = state.device->memory();
  HostAtomics::store_relaxed(state.activity->memory.pinned_bytes, use.pinned);
  HostAtomics::store_relaxed(state.activity->memory.device_bytes, use.on_device());
}

Result<std::shared_ptr<Communicator>> make_child(const CommunicatorState& parent,
                                                 const std::vector<int>& members,
                                                 std::string_view kind, std::uint64_t number,
                                                 const CommOptions& options,
                                                 std::function<bool()> aborted) {
  RONDO_TRY(CreateRequest request, child_request(parent, members, kind, number));
  request.options = options;
  request.options.device = parent.options.device;
  request.aborted = std::move(aborted);
  return Communicator::create(request);
}

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::create(const CreateRequest& request) {
  RONDO_TRY(auto state, make_state(request));
  return std::shared_ptr<Communicator>(new Communicator(std::move(state)));
}

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {
  log_banner(*state_);
}

Communicator::~Communicator() {
  if (state_->host.peers.empty() || state_->forked()) return;
  if (state_->device) state_->device->close();
  state_->one_sided.withdraw_all();
  state_->black_box.write("end");
  HostAtomics::store_release(state_->host.self().progress->state, kLeft);
}

int Communicator::rank() const { return state_->members.rank; }
int Communicator::size() const { return state_->members.size; }
const CommOptions& Communicator::options() const { return state_->options; }
const bootstrap::Secret& Communicator::secret() const { return state_->secret; }
void Communicator::set_timeout(double seconds) { state_->timeout_seconds.store(seconds); }
LastPlan Communicator::last_plan() const { return state_->engine.last_plan(); }

int reach_team_of(const Communicator& communicator) {
  const CommunicatorState& state = *communicator.state_;
  if (state.device) return state.device->reach_team();
  const std::vector<RankFacts>& ranks = state.members.ranks;
  return reach_team(state.members.size, [&](int a, int b) {
    return ranks[static_cast<std::size_t>(a)].process == ranks[static_cast<std::size_t>(b)].process;
  });
}

gpu::GpuRank* gpu_rank_of(const Communicator& communicator) {
  return communicator.state_->device.get();
}

std::shared_ptr<profiler::Profiler> Communicator::profiler() const {
  return state_->events == nullptr ? nullptr : state_->events->profiler();
}

double Communicator::predicted_ns(const CallRecord& record) const {
  if (state_->device) return state_->device->predicted_ns(record);
  return rondo::predicted_ns(state_->facts, record);
}

double Communicator::network_gbs() const {
  const Membership& members = state_->members;
  if (members.shape.hosts() < 2 || !members.placement) return 0;
  const int host = members.shape.host_of(members.rank);
  const topology::Graph& graph = *members.placement->graphs[static_cast<std::size_t>(host)];
  // NCCL_IB_HCA applies to RDMA only. Other networks may use ports that it excludes.
  if (same_network(state_->network, kRdmaNetwork))
    return gpu::network_gbs(graph, admitted_nics(*members.placement, host));
  return gpu::network_gbs(graph, graph.nics());
}

Communicator::MemoryUse Communicator::memory() const {
  MemoryUse use;
  use.shared_bytes = state_->committed_bytes + state_->connections->committed_bytes() +
                     (state_->host.recorder.records() ? sizeof(TraceRing) : 0);
  use.private_bytes = sizeof(CommunicatorState) +
                      state_->host.peers.size() * (sizeof(PeerPort) + sizeof(host::StoreChoice) +
                                                   3 * sizeof(std::uint64_t)) +
                      state_->members.ranks.size() * sizeof(RankFacts);
  if (!state_->device) return use;
  const gpu::GpuMemoryUse on_gpu = state_->device->memory();
  use.pinned_bytes = on_gpu.pinned;
  use.device_bytes = on_gpu.on_device();
  use.droppable_bytes = on_gpu.dropped ? 0 : on_gpu.droppable;
  return use;
}

Status Communicator::suspend() {
  Status done = state_->device ? state_->device->suspend() : ok_status();
  show_device_memory(*state_);
  return done;
}

Status Communicator::resume() {
  Status done = state_->device ? state_->device->resume() : ok_status();
  show_device_memory(*state_);
  return done;
}

std::string Communicator::describe_ranks() const {
  return state_->supervisor.graph().describe_ranks();
}

void set_pool(Communicator& communicator, host::ParallelFor pool) {
  communicator.state_->host.sharing.set_pool(pool);
}

// ---- running calls ----

Status Communicator::run(std::span<const Call> calls) {
  RONDO_CHECK_OK(state_->enter());
  Status result = state_->run_calls(calls, HostStream::serves_here());
  state_->leave();
  return result;
}

Status Communicator::run_here(const Call& call) {
  RONDO_CHECK_OK(state_->enter());
  state_->supervisor.install(false);
  state_->engine.choose_budget(false);
  Status result = state_->faults.or_fault([&] { return state_->engine.run_collective(call); });
  if (!result.ok()) [[unlikely]]
    state_->host.recorder.end(result.code());
  state_->leave();
  return result;
}

Status Communicator::run_together(std::span<const Work> works) {
  if (works.size() == 1) return works[0].communicator->run(works[0].calls);
  assert(std::all_of(works.begin(), works.end(),
                     [](const Work& work) { return work.communicator != nullptr; }));
  std::vector<Status> results(works.size());
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
  for (Status& result : results)
    if (!result.ok()) return std::move(result);
  return ok_status();
}

Status Communicator::enqueue_together(std::span<const Work> works) {
  std::vector<gpu::RankWork> ranks;
  ranks.reserve(works.size());
  for (const Work& work : works) ranks.push_back({work.communicator->state_.get(), work.calls});
  Status done = has_ordered(ranks) ? enqueue_with_ordered(ranks) : gpu::enqueue_together(ranks);
  for (const Work& work : works) {
    CommunicatorState& state = *work.communicator->state_;
    const std::uint64_t number = ++state.enqueues;  // early calls allocate most
    if ((number & (number - 1)) == 0 || number % 1024 == 0) show_device_memory(state);
  }
  return done;
}

std::vector<int> Communicator::ended_ranks() {
  const Membership& members = state_->members;
  std::vector<int> found;
  for (std::size_t r = 0; members.group && r < members.local_ranks.size(); ++r)
    if (has_ended(members.process_of(static_cast<int>(r)))) found.push_back(members.local_ranks[r]);
  const std::optional<Fault> fault = state_->faults.fault();
  if (fault && fault->status == StatusCode::kRemoteError && fault->culprit >= 0 &&
      members.local_of(fault->culprit) < 0)
    found.push_back(fault->culprit);
  {
    std::lock_guard lock(state_->ended_mutex);
    found.insert(found.end(), state_->ended_elsewhere.begin(), state_->ended_elsewhere.end());
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::optional<Fault> Communicator::fault() {
  if (state_->forked()) {
    Fault foreign;
    foreign.status = StatusCode::kInvalidUsage;
    foreign.rank = rank();
    foreign.text = "this communicator belongs to the parent process: after fork, create a new one";
    return foreign;
  }
  if (!state_->faults.is_raised() && !(state_->device && state_->device->adopt_kernel_fault()) &&
      !state_->faults.adopt_from_peers())
    return std::nullopt;
  return state_->faults.fault();
}

// ---- ending ----

void Communicator::abort() {
  if (state_->forked() || !state_->faults.end(FaultState::kAborted)) return;
  state_->end_calls("aborted");
}

void Communicator::revoke() {
  if (state_->forked() || !state_->faults.end(FaultState::kRevoked)) return;
  state_->end_calls("revoked");
}

// ---- children ----

Result<std::vector<Blob>> Communicator::exchange(std::string_view what,
                                                 std::span<const std::byte> mine) {
  if (state_->device) return meet_again(*state_, what, mine);  // its host engine serves streams
  std::vector<std::byte> all(mine.size() * size());
  Call call;
  call.record = {mine.size(), Collective::kAllGather, DataType::kUint8, RedOp::kSum, 0, -1};
  call.send = mine.data();
  call.receive = all.data();
  RONDO_CHECK_OK(run({&call, 1}));
  std::vector<Blob> parts;
  for (int r = 0; r < size(); ++r)
    parts.emplace_back(all.begin() + r * mine.size(), all.begin() + (r + 1) * mine.size());
  return parts;
}

Result<std::shared_ptr<Communicator>> Communicator::split(int color, int key,
                                                          const CommOptions& options,
                                                          std::function<bool()> aborted) {
  struct Choice {
    int color, key;
  };
  const Choice choice{color, key};
  const std::uint64_t child = ++state_->splits;
  RONDO_TRY(const std::vector<Blob> all,
            exchange("CommSplit", std::as_bytes(std::span(&choice, 1))));
  if (color < 0) return std::shared_ptr<Communicator>();
  std::vector<std::pair<int, int>> keyed;  // key, rank
  for (int r = 0; r < size(); ++r) {
    Choice theirs;
    std::memcpy(&theirs, all[r].data(), sizeof(theirs));
    if (theirs.color == color) keyed.emplace_back(theirs.key, r);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int> members;
  for (const auto& [their_key, r] : keyed) members.push_back(r);
  return make_child(*state_, members, "split", child, options, std::move(aborted));
}

Result<std::shared_ptr<Communicator>> duplicate(Communicator& parent,
                                                std::function<bool()> aborted) {
  CommunicatorState& state = *parent.state_;
  RONDO_CHECK_OK(state.enter());  // no fault, no fork
  state.leave();
  std::vector<int> members(static_cast<std::size_t>(parent.size()));
  std::iota(members.begin(), members.end(), 0);
  CommOptions options = state.options;
  options.is_internal = true;
  return make_child(state, members, "copy", ++state.splits, options, std::move(aborted));
}

Result<std::shared_ptr<Communicator>> Communicator::shrink(std::span<const int> excluded,
                                                           const CommOptions& options,
                                                           std::function<bool()> aborted) {
  if (state_->forked())
    return fail(StatusCode::kInvalidUsage,
                "this communicator belongs to the parent process: after fork, create a new one");
  std::vector<int> members;
  for (int r = 0; r < size(); ++r)
    if (std::find(excluded.begin(), excluded.end(), r) == excluded.end()) members.push_back(r);
  if (std::find(members.begin(), members.end(), rank()) == members.end())
    return fail(StatusCode::kInvalidArgument,
                "rank {} is among the excluded ranks: only survivors call shrink", rank());
  RONDO_TRY(auto child, shrink_to(*state_, members, options, std::move(aborted)));
  return std::shared_ptr<Communicator>(new Communicator(std::move(child)));
}

// ---- windows ----

Result<int> Communicator::register_window(void* memory, std::size_t bytes, bool symmetric) {
  constexpr const char* kWhat = "CommWindowRegister";
  if (state_->device)
    return state_->device->open_window(
        [this](std::span<const std::byte> mine) { return exchange(kWhat, mine); }, memory, bytes,
        symmetric);
  RONDO_CHECK_OK(state_->enter());
  const OneSidedCalls::Offer mine = state_->one_sided.offer_of(memory, bytes);
  state_->leave();
  const bool keys = state_->one_sided.withdraws_by_network();  // else no rank has keys
  RONDO_TRY(
      const auto all,
      exchange(kWhat,
               std::as_bytes(std::span(&mine, 1)).first(keys ? sizeof(mine) : sizeof(mine.side))));
  std::vector<OneSidedCalls::Offer> offers(all.size());
  for (std::size_t r = 0; r < all.size(); ++r)
    std::memcpy(&offers[r], all[r].data(), all[r].size());
  int number = -1;
  const auto add = [&]() -> Status {
    RONDO_TRY(number, state_->one_sided.add_window(offers));
    return ok_status();
  };
  RONDO_CHECK_OK(state_->enter());
  state_->supervisor.install(FiberGroup::current() != nullptr);
  const Status added = state_->faults.or_fault(add);
  state_->leave();
  RONDO_CHECK_OK(added);
  // Keeps every rank in this call until its peers have opened their links to it.
  const std::byte joined{};
  if (keys) RONDO_CHECK_OK(exchange(kWhat, {&joined, 1}));
  return number;
}

void Communicator::deregister_window(int window, const std::function<void()>& wait_turn) {
  if (state_->device) return state_->device->close_window(window);
  if (state_->forked()) return;
  if (wait_turn && state_->one_sided.withdraws_by_network()) wait_turn();
  state_->one_sided.withdraw(window);
}

std::size_t Communicator::window_bytes(int window, int peer) const {
  assert(window >= 0 && peer >= 0 && peer < size());
  if (state_->device) return state_->device->window_bytes(window, peer);
  return state_->one_sided.window_bytes(window, peer);
}

}  // namespace rondo
