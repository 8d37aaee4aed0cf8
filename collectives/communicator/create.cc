// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/communicator_state.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

#include "base/env.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/seconds.h"
#include "collectives/communicator/core_use.h"
#include "collectives/communicator/host_meeting.h"
#include "collectives/communicator/introduction.h"
#include "collectives/context/agreed_facts.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/standstill.h"
#include "collectives/gpu/rank/entry_points.h"
#include "collectives/host/verified_calls.h"
#include "collectives/planner/tuning.h"
#include "collectives/trace/host_clocks.h"
#include "collectives/tuner/tuner_plugin.h"
#include "transport/cuda/deferred_free.h"
#include "transport/networks/network_agreement.h"
#include "transport/socket/interfaces.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
using Blob = std::vector<std::byte>;

class Creation {
 public:
  explicit Creation(const CreateRequest& request)
      : request_(request),
        state_(std::make_unique<CommunicatorState>()),
        deadline_(Clock::now() + to_nanoseconds(request.options.init_timeout_seconds)) {}

  Result<std::unique_ptr<CommunicatorState>> run() {
    assert(request_.size > 0 && request_.rank >= 0 && request_.rank < request_.size);
    state_->members.rank = request_.rank;
    state_->members.size = request_.size;
    state_->options = request_.options;
    state_->made_in = fork_generation();
    state_->timeout_seconds.store(request_.options.timeout_seconds);
    state_->on_device = request_.options.device >= 0;
    state_->waits_for_ever = state_->on_device && request_.options.kernel_seconds == 0;
    if (state_->on_device) gpu::free_deferred();
    state_->status = StatusSeat::take({request_.rank, request_.size, request_.options.name});
    RONDO_CHECK_OK(join());
    // A rank that fails now reports it to all others, so that no rank waits until its deadline.
    const Status created =
        guarded("joining the other ranks", [this] { return steps_after_join(); });
    if (!created.ok()) return give_up(created.error());
    RONDO_INFO(kInit, "rank {} of {}: {} on this host, {}, ready", request_.rank, request_.size,
               counted(state_->host.size, "rank"), counted(state_->facts.hosts, "host"));
    return std::move(state_);
  }

 private:
  // Of a shrink, ranks that had the last message before this one gave up get a fault of the child.
  Error give_up(const Error& error) {
    if (refused_by_all_) return error;
    Error mine = session_->give_up(error);
    if (request_.survivors && !state_->host.peers.empty())
      state_->faults.raise(
          Fault::found_by(request_.rank, mine.code, request_.rank,
                          fmt::format("rank {} could not set up: {}", request_.rank, mine.text)));
    return mine;
  }

  Status steps_after_join() {
    RONDO_CHECK_OK(introduce());
    RONDO_CHECK_OK(meet());
    agree_on_facts(records_, state_->members.shape, &state_->facts);
    const Membership& members = state_->members;
    const tuner::TunerPlugin* tuner = nullptr;
    if (request_.options.device >= 0) {
      RONDO_TRY(tuner, tuner::find_tuner());
    }
    RONDO_TRY(state_->members.placement,
              find_placement({members.rank, members.shape, records_, *session_, request_.graph,
                              tuner == nullptr ? "" : tuner->identity()}));
    if (members.placement && !members.placement->refusal.empty())
      return refuse_with_all(fail(StatusCode::kInvalidUsage, "{}", members.placement->refusal));
    RONDO_CHECK_OK(open_links());
    RONDO_TRY(const trace::HostOffset offset, measure_clocks());
    prepare_host_view(offset);  // a thread of the GPU binding watches it
    RONDO_CHECK_OK(check_same_kind(records_));
    RONDO_CHECK_OK(gpu::bind_to_device({*state_,
                                        *session_,
                                        records_,
                                        host_listener_.listener,
                                        {deadline_, request_.aborted},
                                        request_.graph != nullptr}));
    if (tuner != nullptr) RONDO_CHECK_OK(tune(*tuner));
    RONDO_CHECK_OK(show_status());
    if (request_.survivors) RONDO_CHECK_OK(session_->all_gather({}));  // all have succeeded
    start_profiler();  // last: a plugin that cannot be used fails nothing
    return ok_status();
  }

  void start_profiler() {
    if (request_.options.is_internal) return;
    const std::string& name = state_->options.name;
    auto profiler = profiler::open_profiler({.communicator = public_id(),
                                             .name = name.empty() ? nullptr : name.c_str(),
                                             .hosts = state_->facts.hosts,
                                             .ranks = request_.size,
                                             .rank = request_.rank},
                                            state_->on_device);
    if (profiler == nullptr) return;
    state_->call_events = std::make_unique<profiler::CallEvents>(std::move(profiler));
    state_->events = state_->call_events.get();
    if (!state_->on_device) state_->host.recorder.observe_by(*state_->call_events);
  }

  // Lets status queries see the rank. Processes of several hosts learn each other's ports for them.
  Status show_status() {
    OwnRank own{.context = state_.get(),
                .name = request_.options.name,
                .secret = state_->secret.derive("status").bytes()};
    if (state_->facts.hosts > 1) {
      const std::uint16_t port =
          state_->status == nullptr ? 0 : state_->status->port_for_ranks(state_->addresses);
      RONDO_TRY(const std::vector<Blob> all,
                session_->all_gather(std::as_bytes(std::span(&port, 1))));
      for (const Blob& blob : all) {
        if (blob.size() != sizeof(port))
          return fail(StatusCode::kRemoteError, "a rank sent a port that cannot be read");
        std::memcpy(&own.ports.emplace_back(), blob.data(), sizeof(port));
      }
    }
    if (request_.options.device >= 0)
      for (const InitRecord& record : records_) own.devices.push_back(record.device);
    if (state_->status != nullptr) state_->status->show(std::move(own));
    return ok_status();
  }

  Status tune(const tuner::TunerPlugin& plugin) {
    RONDO_TRY(const std::string why_not, gpu::agree_on_tuning(*state_, *session_, plugin));
    return why_not.empty() ? ok_status()
                           : refuse_with_all(fail(StatusCode::kInvalidUsage, "{}", why_not));
  }

  Status join() {
    bootstrap::JoinRequest join;
    join.rank = request_.rank;
    join.size = request_.size;
    join.id = request_.id;
    join.more_ids = request_.more_ids;
    join.on_news = [this](const bootstrap::JoinNews& news) {
      if (state_->status != nullptr) state_->status->note(news);
    };
    join.timeout = deadline_ - Clock::now();
    join.aborted = request_.aborted;
    join.survivors = request_.survivors;
    using bootstrap::Session;
    RONDO_TRY(session_, request_.serve ? Session::serve_and_join(*request_.serve, join)
                                       : Session::join(join));
    if (request_.survivors) request_.survivors->on_joined();
    return ok_status();
  }

  Status introduce() {
    if (stores_ != "auto" && stores_ != "0" && stores_ != "1")
      return fail(StatusCode::kInvalidUsage, "RONDO_NT_STORES={}: use 0, 1 or auto", stores_);
    RONDO_TRY(host_listener_, open_host_listener());
    RONDO_TRY(state_->listener, bootstrap::Listener::open(session_->rendezvous_at()));
    RONDO_TRY(const InitRecord mine, introduction(request_, host_listener_.listener.name,
                                                  state_->listener->address(), session_->secret()));
    RONDO_TRY(const std::vector<Blob> all, session_->all_gather(mine.encode()));
    for (int r = 0; r < request_.size; ++r) {
      RONDO_TRY(InitRecord record, InitRecord::decode(all[r], r));
      records_.push_back(std::move(record));
    }
    RONDO_TRY(state_->secret, secret_of_ranks(session_->secret(), records_));
    return ok_status();
  }

  Status meet() {
    const net::Deadline deadline{
        deadline_,
        [this] { return (request_.aborted && request_.aborted()) || !session_->standing().ok(); }};
    return meet_on_hosts(
        {*state_, *session_, records_, host_listener_, asked_buffer_bytes(records_), deadline});
  }

  void prepare_host_view(const trace::HostOffset& offset) {
    assert(state_->members.group != nullptr && state_->host.peers.empty() && "after meet()");
    host::HostRank& view = state_->host;
    const shm::HostGroup& group = *state_->members.group;
    view.all_same_process = group.processes.size() == 1;
    for (int r = 0; r < view.size; ++r) {
      PeerPort port = group.segment->port(r);
      const int process = group.process_of_member[r];
      port.same_process = process == group.process_of_member[view.rank];
      const auto& neighbour = group.processes[process].neighbour;
      port.arena = neighbour ? neighbour->pieces() : nullptr;
      view.peers.push_back(port);
    }
    if (state_->facts.reads != MemoryReads::kNever)
      for (const int rank : state_->members.local_ranks)
        view.memories.push_back(memory_of(state_->members.ranks[static_cast<std::size_t>(rank)]));
    state_->activity = group.segment->activity(view.rank);
    view.slot_bytes = tuning::kStagingBytes / kStagingSlots;
    view.global = state_->members.local_ranks;
    view.known_step.assign(view.size, 0);
    view.known_sequence.assign(view.size, 0);
    view.entered.assign(view.size, 0);
    view.exposure.assign(view.size, 0);
    if (auto arena = shm::Arena::of_process(); arena.ok()) view.arena = (*arena)->places();
    state_->supervisor.watch_processes();
    view.light = have_light_stores(records_, view.global);
    view.waiter = Waiter(view.self().parked, view.self().bell, view.light);
    show_identity(*view.self().identity);
    state_->connect_host_view();
    std::vector<int> locals;
    for (int r = 0; r < request_.size; ++r) locals.push_back(state_->members.local_of(r));
    state_->connections = std::make_unique<Connections>(group.segment, view.rank, std::move(locals),
                                                        state_->remote.links(), view.light);
    use_cores(*state_, records_, stores_);
    state_->black_box.open(public_id(), offset);
    if (state_->status != nullptr) state_->status->serve_metrics(view.rank == 0);
    prepare_verification();
  }

  // The same decision on all ranks, because all take part.
  Result<trace::HostOffset> measure_clocks() {
    const int rounds = std::ranges::max(records_, {}, &InitRecord::clock_rounds).clock_rounds;
    return trace::measure_offset(state_->members.shape, state_->members.rank, rounds,
                                 [this](const auto& mine) { return session_->all_gather(mine); });
  }

  void prepare_verification() {
    const std::uint64_t every = asked_verification(records_);
    if (every == 0) return;
    state_->engine.verify(every, state_->secret);
    static std::atomic<bool> reported{false};
    if (request_.options.device >= 0 && request_.rank == 0 && !reported.exchange(true))
      RONDO_WARN(
          "RONDO_VERIFY: calls that run as kernels on GPUs are not verified, only those that pass "
          "through host memory");
  }

  // Equal on all ranks, and never 0. It reveals nothing of the secret. Status, traces, metrics and
  // profilers show it.
  std::uint64_t public_id() const { return status_hash(state_->secret.derive("status").bytes()); }

  // For rondo ps.
  void show_identity(IdentityLine& line) const {
    line.rank = request_.rank;
    line.size = request_.size;
    line.pid_namespace = pid_namespace();
    request_.options.name.copy(line.name, sizeof(line.name) - 1);
    HostAtomics::store_release(line.pid, static_cast<std::int32_t>(getpid()));
  }

  // For an error that every rank detects by itself: it is not sent to the others.
  Status refuse_with_all(const Error& error) {
    refused_by_all_ = true;
    return error;
  }

  // Opens links to the ranks of other hosts over a network that all ranks agree on, authenticated
  // by the communicator's secret. A network that a rank requests must be available also on one
  // host.
  Status open_links() {
    const int hosts = state_->facts.hosts;
    std::vector<std::string> names;
    for (const InitRecord& record : records_) names.push_back(record.network);
    const auto asked = asked_network(names);
    if (!asked.ok()) return refuse_with_all(asked.error());
    if (!needs_agreement(*asked, hosts)) return ok_status();
    const auto gather = [this](std::span<const std::byte> mine) {
      return session_->all_gather(mine);
    };
    RONDO_TRY(state_->addresses, net::own_addresses(session_->rendezvous_at()));
    if (hosts > 1) RONDO_CHECK_OK(net::check_reach(state_->addresses, session_->rendezvous_at()));
    const NetworkRequest request{.rank = request_.rank,
                                 .secret = state_->secret.derive("links").bytes(),
                                 .near = state_->members.near_nics(),
                                 .addresses = state_->addresses};
    RONDO_TRY(AgreedNetwork agreed, agree_on_network(*asked, request, gather));
    if (agreed.refusal) return refuse_with_all(*agreed.refusal);
    if (hosts == 1) return ok_status();
    RONDO_INFO(kInit, "rank {}: hosts communicate by {}", request_.rank, agreed.name);
    state_->network = agreed.name;
    RemoteLinksOptions options;
    options.rank = request_.rank;
    options.size = request_.size;
    options.network = std::move(agreed.control);
    options.data = std::move(agreed.data);
    options.slots = {tuning::link_slot_bytes(asked_buffer_bytes(records_)),
                     2 * tuning::kConnectionSlots};
    shm::ActivityLine& activity = *state_->members.group->segment->activity(state_->host.rank);
    options.counters = &activity.network;
    options.rails = activity.rails;
    options.host_of = state_->members.shape.host;
    options.on_control = [state = state_.get()](int peer, std::span<const std::byte> message) {
      const auto body = message.subspan(message.empty() ? 0 : 1);
      if (!message.empty() && message[0] == std::byte{kReportMessage})
        return state->supervisor.statuses().on_message(peer, body);
      if (!message.empty() && message[0] != std::byte{kFaultMessage}) {
        if (state->device) state->device->report(peer, message);
        return;
      }
      state->faults.raise(decode_fault(body, state->members.size));
    };
    RONDO_TRY(auto links, RemoteLinks::open(std::move(options)));
    links->set_peers(std::move(agreed.control_addresses), std::move(agreed.data_addresses));
    state_->remote.open(std::move(links));
    return ok_status();
  }

  const CreateRequest& request_;
  std::unique_ptr<CommunicatorState> state_;
  Clock::time_point deadline_;
  std::unique_ptr<bootstrap::Session> session_;
  HostListener host_listener_;
  const std::string stores_ = env::get_string("RONDO_NT_STORES");
  std::vector<InitRecord> records_;
  bool refused_by_all_ = false;
};

}  // namespace

Result<std::unique_ptr<CommunicatorState>> make_state(const CreateRequest& request) {
  if (request.size < 1 || request.rank < 0 || request.rank >= request.size)
    return fail(StatusCode::kInvalidArgument, "Invalid rank requested : {}/{}", request.rank,
                request.size);
  return Creation(request).run();
}

}  // namespace rondo
