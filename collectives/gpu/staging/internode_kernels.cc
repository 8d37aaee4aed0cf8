#include "collectives/gpu/staging/internode_kernels.h"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/atomics.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/kernel_watch.h"
#include "collectives/gpu/launch/kernel_loading.h"
#include "collectives/gpu/launch/strategies.h"
#include "collectives/watchdog/fault_texts.h"
#include "kernels/cuda/kernels.h"
#include "kernels/reduce.h"
#include "transport/cuda/device.h"
#include "transport/open_network.h"

namespace rondo::gpu {
namespace {

constexpr int kBusyTurns = 300;  // without traffic, before the thread sleeps
constexpr std::int64_t kTickNs = 500'000;
constexpr std::int64_t kBusySleepNs = 50'000;
constexpr std::int64_t kIdleSleepNs = 1'000'000;
constexpr std::int64_t kLingerNs = 5'000'000;  // after the last slot: the next call may be near
// In vain, until a neighbour whose connection ended is to blame: rank 0 may know better.
constexpr std::int64_t kLineNs = 1'500'000'000;
constexpr std::int64_t kFlushNs = 5'000'000'000;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::vector<RelayLine> lines_of(const DeviceConnections& connections, int rank) {
  std::vector<RelayLine> lines;
  for (const ConnectionLayout::Edge& edge : connections.layout().edges()) {
    if (!edge.crosses || (edge.from != rank && edge.to != rank)) continue;
    const bool sends = edge.from == rank;
    for (int c = 0; c < connections.layout().shape().channels; ++c)
      lines.push_back({relay_link(edge.from, edge.to, edge.lane, c),
                       connections.mirror(edge, sends ? cuda::kOutgoing : cuda::kIncoming, c),
                       sends});
  }
  return lines;
}

}  // namespace

Result<std::unique_ptr<InternodeKernels>> InternodeKernels::open(
    Terms terms, std::shared_ptr<DeviceConnections> connections) {
  std::unique_ptr<InternodeKernels> made(
      new InternodeKernels(std::move(terms), std::move(connections)));
  RONDO_CHECK_OK(made->open());
  return made;
}

InternodeKernels::InternodeKernels(Terms terms, std::shared_ptr<DeviceConnections> connections)
    : api_(*gpu_api()), terms_(std::move(terms)), connections_(std::move(connections)) {}

Done InternodeKernels::open() {
  const DeviceScope scope(terms_.device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(load_kernels(api_, {cuda::kConnectedCopyKernel}, {cuda::connected_kernel}));
  RONDO_CHECK_OK(open_bell());
  connections_->host_control(terms_.rank).limit_ns =
      static_cast<std::uint64_t>(terms_.kernel_seconds * 1e9);
  constexpr int kStreams = 1;  // channels are enough
  RONDO_TRY(auto network, open_network({terms_.rank, terms_.secret, "relay", kStreams}));
  RONDO_TRY(relay_, Relay::open(std::move(network), lines_of(*connections_, terms_.rank)));
  RONDO_TRY(status_, InternodeStatus::open(
                         {terms_.rank, terms_.size, terms_.secret, terms_.name_of, terms_.raise}));
  return done();
}

std::vector<std::byte> InternodeKernels::address() const {
  ByteWriter both;
  both.put_bytes(relay_->address());
  both.put_bytes(status_->address());
  return both.take();
}

Done InternodeKernels::connect(std::span<const std::vector<std::byte>> addresses,
                               const net::Deadline& deadline) {
  std::vector<std::vector<std::byte>> relays, controls;
  for (const auto& both : addresses) {
    ByteReader reader(both);
    relays.push_back(reader.get_bytes());
    controls.push_back(reader.get_bytes());
    if (!reader.ok())
      return fail(Status::kRemoteError, "a rank gave no address for connections between hosts");
  }
  RONDO_CHECK_OK(status_->connect(std::move(controls)));
  RONDO_CHECK_OK(relay_->connect(relays));
  RONDO_TRY(thread_, Thread::start(
                         "connections between hosts", [this] { serve(); }, [](const Error&) {}));
  const auto is_aborted = [&] { return deadline.aborted && deadline.aborted(); };
  const auto is_over = [&] {
    return is_open_.load(std::memory_order_acquire) || is_aborted() || status_->has_ended();
  };
  if (!poll_until(is_over, deadline.at))
    return fail(Status::kTimeout,
                "rank {} timed out while it opened the connections of its GPU to other hosts; "
                "RONDO_INIT_TIMEOUT sets this limit",
                terms_.rank);
  if (is_open_.load(std::memory_order_acquire)) return done();
  if (is_aborted())
    return fail(Status::kInvalidUsage, "aborted while connections between hosts were opened");
  return fail(Status::kRemoteError, "a rank gave up while connections were opened");
}

InternodeKernels::~InternodeKernels() {
  stop_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

Done InternodeKernels::announce(const CallRecord& record) { return status_->announce(record); }

std::optional<DevicePlan> InternodeKernels::plan(const CallRecord& record) const {
  return plan_across_hosts(terms_.plan, terms_.from_bytes, record);
}

Done InternodeKernels::launch(const DevicePlan& plan, const Call& call) {
  std::vector<Buffers> buffers(static_cast<std::size_t>(terms_.size));
  buffers[static_cast<std::size_t>(terms_.rank)] = buffers_of(call);
  const int here[] = {terms_.rank};
  if (sleeps_.load(std::memory_order_seq_cst)) wake();  // first: launches may be blocking
  DeviceLaunch launch{api_, *connections_, plan, call.record, buffers, here};
  launch.stream = call.stream;
  return launch_connected(launch);
}

bool InternodeKernels::gave_up() const {
  return HostAtomics::load_acquire(connections_->host_control(terms_.rank).gave_up) != 0;
}

void InternodeKernels::end(const Fault& fault) {
  // Not those of other ranks of this process: they shall know why before their streams end.
  HostAtomics::store_release(connections_->host_control(terms_.rank).abort, std::uint32_t{1});
  status_->end(fault);
  wake();
}

// ---- the thread: slots to and from other hosts, news to and from rank 0 ----

Done InternodeKernels::open_bell() {
  bell_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return bell_ ? done() : fail_errno(errno, "cannot make an eventfd for connections between hosts");
}

void InternodeKernels::wake() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof(one));
}

void InternodeKernels::serve() {
  int idle = 0;
  std::int64_t active = 0;  // when something last was to be done
  while (!stop_) {
    if (step()) {
      idle = 0;
      continue;
    }
    const std::int64_t now = now_ns();
    if (idle < kBusyTurns) {
      ++idle;
      active = now;
      sched_yield();
      continue;
    }
    if (is_in_launch(*connections_, terms_.rank)) active = now;
    if (sleep(now - active < kLingerNs)) idle = 0;
  }
  // What kernels have left here still goes out, unless all is over.
  for (const std::int64_t until = now_ns() + kFlushNs;
       !status_->has_ended() && !relay_->flushed() && now_ns() < until;)
    if (!step()) sleep(true);
  status_->leave(standing());
  relay_->close();
}

bool InternodeKernels::step() {
  const auto fail = [this](const Error& error) {
    (void)guarded("a fault", [&] {
      Fault found;
      found.status = error.status;
      found.rank = found.culprit = terms_.rank;
      found.text = error.text;
      terms_.raise(found);
      return end(found), done();
    }).ok();
  };
  const auto moved = guarded(
      "connections between hosts", [this] { return Result<bool>(try_step()); }, fail);
  return moved.ok() && *moved;
}

bool InternodeKernels::try_step() {
  bool moved = relay_->progress();
  if (!is_open_.load(std::memory_order_relaxed) && relay_->is_open())
    is_open_.store(true, std::memory_order_release);
  const std::int64_t now = now_ns();
  if (now - ticked_ns_ < kTickNs) return moved;
  ticked_ns_ = now;
  const Standing own = standing();
  moved |= status_->tick(own, now);
  look_at_lines(own, now);
  return moved;
}

bool InternodeKernels::sleep(bool busy) {
  sleeps_.store(true, std::memory_order_seq_cst);
  pollfd entries[] = {
      {bell_.get(), POLLIN, 0}, {relay_->poll_fd(), POLLIN, 0}, {status_->poll_fd(), POLLIN, 0}};
  const timespec at_most{0, busy ? kBusySleepNs : kIdleSleepNs};
  const bool rung = ::ppoll(entries, 3, &at_most, nullptr) > 0 && entries[0].revents != 0;
  sleeps_.store(false, std::memory_order_relaxed);
  std::uint64_t rings = 0;
  if (rung) (void)!::read(bell_.get(), &rings, sizeof(rings));
  return rung;
}

Standing InternodeKernels::standing() const {
  const cuda::Control& control = connections_->host_control(terms_.rank);
  Standing now = seen_;
  now.traffic = relay_->moved();
  if (const NewestLaunch newest = newest_launch_of(*connections_, terms_.rank);
      newest.number != 0) {
    now.begun = newest.number;
    now.launch = newest.call;
  }
  now.inside = is_in_launch(*connections_, terms_.rank) ? 1 : 0;
  now.gave_up = HostAtomics::load_acquire(control.gave_up);
  if (now.gave_up == 0) return now;
  now.launch = control.call;
  now.peer = control.peer;
  now.channel = control.channel;
  now.step = control.step;
  now.wants_room = control.wants_room;
  now.limit_millis = static_cast<std::uint32_t>(control.limit_ns / 1'000'000);
  return now;
}

// A neighbour that closed its connections has done its part, unless this rank then waits in vain.
void InternodeKernels::look_at_lines(const Standing& own, std::int64_t now) {
  if (!(own == seen_)) changed_ns_ = now;
  seen_ = own;
  int peer = -1;
  const Error* const ended = relay_->first_end(&peer);
  if (ended == nullptr || status_->has_ended()) return;
  if (ended_ns_ == 0) ended_ns_ = now;
  if (own.inside == 0 && is_open_.load(std::memory_order_relaxed)) return;
  if (now - std::max(ended_ns_, changed_ns_) < kLineNs) return;
  Fault found;
  found.status = Status::kRemoteError;
  found.rank = terms_.rank;
  found.culprit = peer;
  found.own = own.launch;
  found.text = own.inside != 0 ? fault_texts::lost(terms_.name_of(peer), to_string(own.launch),
                                                   terms_.rank, ended->text)
                               : ended->text;
  terms_.raise(found);
  end(found);
}

}  // namespace rondo::gpu
