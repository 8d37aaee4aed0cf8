#include "collectives/gpu/staging/internode_kernels.h"

#include <algorithm>
#include <chrono>

#include "base/atomics.h"
#include "base/guard.h"
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

constexpr std::int64_t kTickNs = 500'000;
// In vain, until a neighbour whose connection ended is to blame: rank 0 may know better.
constexpr std::int64_t kLineNs = 1'500'000'000;
constexpr double kFlushSeconds = 5;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::vector<NetProxyLine> lines_of(const DeviceConnections& connections, int rank) {
  std::vector<NetProxyLine> lines;
  for (const ConnectionLayout::Edge& edge : connections.layout().edges()) {
    if (!edge.crosses() || (edge.from != rank && edge.to != rank)) continue;
    const bool sends = edge.from == rank;
    for (int c = 0; c < connections.layout().shape().channels; ++c)
      lines.push_back(
          {net_proxy_link(edge.from, edge.to, edge.lane, c),
           connections.bounce_buffer(edge, sends ? cuda::kOutgoing : cuda::kIncoming, c), sends});
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
  connections_->host_control(terms_.rank).limit_ns =
      static_cast<std::uint64_t>(terms_.kernel_seconds * 1e9);
  constexpr int kStreams = 1;  // channels are enough
  RONDO_TRY(auto network, open_network({terms_.rank, terms_.secret, "slots", kStreams}));
  RONDO_TRY(net_proxy_, NetProxy::open(std::move(network), lines_of(*connections_, terms_.rank)));
  return done();
}

std::vector<std::byte> InternodeKernels::address() const { return net_proxy_->address(); }

Done InternodeKernels::connect(std::span<const std::vector<std::byte>> addresses,
                               const net::Deadline& deadline) {
  RONDO_CHECK_OK(net_proxy_->connect(addresses));
  const auto is_aborted = [&] { return deadline.aborted && deadline.aborted(); };
  int peer = -1;
  const auto is_over = [&] {
    net_proxy_->progress();
    return net_proxy_->is_open() || is_aborted() || net_proxy_->first_end(&peer) != nullptr;
  };
  if (!poll_until(is_over, deadline.at))
    return fail(Status::kTimeout,
                "rank {} timed out while it opened the connections of its GPU to other hosts; "
                "RONDO_INIT_TIMEOUT sets this limit",
                terms_.rank);
  if (net_proxy_->is_open()) return done();
  if (is_aborted())
    return fail(Status::kInvalidUsage, "aborted while connections between hosts were opened");
  return *net_proxy_->first_end(&peer);
}

std::optional<DevicePlan> InternodeKernels::plan(const CallRecord& record) const {
  return plan_across_hosts(terms_.plan, terms_.from_bytes, record);
}

Done InternodeKernels::launch(const DevicePlan& plan, const Call& call) {
  std::vector<Buffers> buffers(static_cast<std::size_t>(terms_.size));
  buffers[static_cast<std::size_t>(terms_.rank)] = buffers_of(call);
  const int here[] = {terms_.rank};
  terms_.proxy.ring();  // first: launches may be blocking
  DeviceLaunch launch{api_, *connections_, plan, call.record, buffers, here};
  launch.stream = call.stream;
  return launch_connected(launch);
}

bool InternodeKernels::gave_up() const {
  return HostAtomics::load_acquire(connections_->host_control(terms_.rank).gave_up) != 0;
}

void InternodeKernels::end() {
  // Not those of other ranks of this process: they shall know why before their streams end.
  HostAtomics::store_release(connections_->host_control(terms_.rank).abort, std::uint32_t{1});
  ended_.store(true, std::memory_order_release);
}

bool InternodeKernels::progress() {
  const auto fail = [this](const Error& error) {
    (void)guarded("a fault", [&] {
      Fault found;
      found.status = error.status;
      found.rank = found.culprit = terms_.rank;
      found.text = error.text;
      return terms_.raise(found), done();
    }).ok();
  };
  const auto step = [this] {
    const bool moved = net_proxy_->progress();
    if (const std::int64_t now = now_ns(); now - ticked_ns_ >= kTickNs) {
      ticked_ns_ = now;
      look_at_lines(now);
    }
    return Result<bool>(moved);
  };
  const auto moved = guarded("connections between hosts", step, fail);
  return moved.ok() && *moved;
}

bool InternodeKernels::is_busy() const { return is_in_launch(*connections_, terms_.rank); }

void InternodeKernels::finish() {
  const auto is_over = [this] {
    progress();
    return ended_.load(std::memory_order_acquire) || net_proxy_->flushed();
  };
  poll_until(is_over, seconds_from_now(kFlushSeconds));
  net_proxy_->close();
}

Standing InternodeKernels::standing() const {
  const cuda::Control& control = connections_->host_control(terms_.rank);
  Standing now = seen_;
  now.traffic = net_proxy_->moved();
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
void InternodeKernels::look_at_lines(std::int64_t now) {
  const Standing own = standing();
  if (!(own == seen_)) changed_ns_ = now;
  seen_ = own;
  int peer = -1;
  const Error* const ended = net_proxy_->first_end(&peer);
  if (ended == nullptr || ended_.load(std::memory_order_acquire)) return;
  if (ended_ns_ == 0) ended_ns_ = now;
  if (own.inside == 0) return;
  if (now - std::max(ended_ns_, changed_ns_) < kLineNs) return;
  Fault found;
  found.status = Status::kRemoteError;
  found.rank = terms_.rank;
  found.culprit = peer;
  found.own = own.launch;
  found.text =
      fault_texts::lost(terms_.name_of(peer), to_string(own.launch), terms_.rank, ended->text);
  terms_.raise(found);
}

}  // namespace rondo::gpu
