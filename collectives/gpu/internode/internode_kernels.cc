// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/internode/internode_kernels.h"

#include <algorithm>
#include <utility>

#include "base/atomics.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/channels/kernel_watch.h"
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "kernels/reduce.h"
#include "transport/cuda/device.h"
#include "transport/networks/open_network.h"

namespace rondo::gpu {
namespace {

constexpr double kFlushSeconds = 5;

// Blocks that hold the slots of each direction; null: host memory.
using Blocks = std::array<DirectBlock, cuda::kDirections>;

std::vector<NetProxyLine> lines_of(const DeviceConnections& connections, int rank,
                                   const Blocks& blocks) {
  std::vector<NetProxyLine> lines;
  for (const ConnectionLayout::Edge& edge : connections.layout().edges()) {
    if (!edge.crosses() || (edge.from != rank && edge.to != rank)) continue;
    const bool sends = edge.from == rank;
    const cuda::Direction direction = sends ? cuda::kOutgoing : cuda::kIncoming;
    lines.push_back({net_proxy_link(edge.from, edge.to, edge.lane, edge.channel),
                     connections.bounce_buffer(edge, direction), sends, blocks[direction]});
  }
  return lines;
}

}  // namespace

Result<std::unique_ptr<InternodeKernels>> InternodeKernels::open(
    Options options, ProcessMeeting meeting, std::unique_ptr<DeviceConnections> connections) {
  std::unique_ptr<InternodeKernels> made(
      new InternodeKernels(std::move(options), std::move(connections)));
  RONDO_CHECK_OK(made->open(std::move(meeting)));
  return made;
}

InternodeKernels::InternodeKernels(Options options, std::unique_ptr<DeviceConnections> connections)
    : options_(std::move(options)), connections_(std::move(connections)) {}

Status InternodeKernels::open(ProcessMeeting meeting) {
  const DeviceScope scope(options_.device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(
      load_kernels({cuda::kConnectedCopyKernel, cuda::kMessagesKernel}, {cuda::connected_kernel}));
  connections_->host_control(options_.rank).limit_ns =
      static_cast<std::uint64_t>(options_.kernel_seconds * 1e9);
  constexpr int kStreams = 1;  // channels are parallel enough
  RONDO_TRY(auto network, open_network(options_.network, {.rank = options_.rank,
                                                          .secret = options_.secret,
                                                          .purpose = "slots",
                                                          .streams = kStreams,
                                                          .near = options_.near,
                                                          .addresses = options_.addresses}));
  RONDO_TRY(net_proxy_, NetProxy::open(std::move(network)));
  RONDO_CHECK_OK(place_slots());
  messages_ = std::make_unique<InternodeMessages>(
      InternodeMessages::Options{options_.rank, options_.device, options_.plan,
                                 options_.kernel_seconds, options_.deadline},
      std::move(meeting), *connections_, *net_proxy_, arenas_);
  return ok_status();
}

// Places the rank's slots to other hosts, for connections now and for messages later.
Status InternodeKernels::place_slots() {
  const auto rules = GpuDirectRules::from_environment();
  if (!rules.ok())
    RONDO_WARN("rank {}: {}; its slots to other hosts stay in host memory", options_.rank,
               rules.error().text);
  const GpuDirectFacts facts =
      gpu_direct_facts(options_.device, net_proxy_->network(), options_.near);
  DeviceConnections::BounceSlots slots;
  Blocks blocks;
  for (const int direction : {cuda::kOutgoing, cuda::kIncoming}) {
    if (!rules.ok()) break;
    const DirectPiece piece =
        direct_slots(direction, gpu_direct(*rules, facts, direction == cuda::kOutgoing));
    slots[direction] = piece.at;
    blocks[direction] = piece.block;
  }
  RONDO_CHECK_OK(connections_->place_bounce_buffers(options_.rank, std::move(slots)));
  return net_proxy_->add_first(lines_of(*connections_, options_.rank, blocks));
}

// Empty: the slots are pinned.
DirectPiece InternodeKernels::direct_slots(int direction, const GpuDirectVerdict& verdict) {
  const char* const what = direction == cuda::kOutgoing ? "sends from" : "receives into";
  const std::uint64_t bytes = connections_->layout().bounce_slot_bytes(options_.rank, direction);
  auto arena = DirectArena::open(options_.device, verdict, bytes,
                                 [this](const DirectBlock& one) { return net_proxy_->take(one); });
  auto piece = arena.ok() ? (*arena)->take(bytes) : Result<DirectPiece>(arena.error());
  if (!piece.ok()) {
    RONDO_INFO(kNet, "rank {} {} host memory, to other hosts: {}", options_.rank, what,
               piece.error().text);
    return {};
  }
  RONDO_INFO(kNet, "rank {} {} its GPU's memory, to other hosts ({}{})", options_.rank, what,
             (*arena)->kind() == net::Memory::Kind::kDmabuf ? "dmabuf" : "nvidia_peermem",
             verdict.flushes      ? ", with flushes"
             : verdict.reads_back ? ", read back by the network"
                                  : "");
  arenas_[direction] = std::move(*arena);
  return std::move(*piece);
}

GpuMemoryUse InternodeKernels::memory() const {
  GpuMemoryUse use = messages_->memory();
  use.device += connections_->layout().bytes(options_.rank);
  use.pinned += connections_->pinned_bytes(options_.rank);
  for (const auto& arena : arenas_)
    if (arena) use.device += arena->bytes();
  return use;
}

std::vector<std::byte> InternodeKernels::address() const { return net_proxy_->address(); }

Status InternodeKernels::connect(std::span<const std::vector<std::byte>> addresses,
                                 const net::Deadline& deadline) {
  RONDO_CHECK_OK(net_proxy_->connect(addresses));
  const auto is_aborted = [&] { return deadline.aborted && deadline.aborted(); };
  int peer = -1;
  const auto is_over = [&] {
    net_proxy_->progress();
    return net_proxy_->is_open() || is_aborted() || net_proxy_->first_end(&peer) != nullptr;
  };
  if (!poll_until(is_over, deadline.at))
    return fail(StatusCode::kTimeout,
                "rank {} timed out while it opened the connections of its GPU to other hosts; "
                "RONDO_INIT_TIMEOUT sets this limit",
                options_.rank);
  if (net_proxy_->is_open()) return ok_status();
  if (is_aborted())
    return fail(StatusCode::kInvalidUsage, "aborted while connections between hosts were opened");
  return *net_proxy_->first_end(&peer);
}

std::optional<DevicePlan> InternodeKernels::plan(const CallRecord& record,
                                                 NewestDevicePlan* newest) const {
  return plan_across_hosts(options_.plan.plan, options_.plan.from_bytes, record, newest);
}

void InternodeKernels::set_tuned(std::shared_ptr<const TunedWays> ways) {
  tuned_ = std::move(ways);
  options_.plan.plan.tuned = tuned_.get();
}

PlannedCall InternodeKernels::planned(const DevicePlan& plan, const Call& call,
                                      std::vector<Buffers> memory) const {
  PlannedCall planned{plan, call.record, std::move(memory), false};
  planned.buffers.assign(1, buffers_of(call));
  return planned;
}

Status InternodeKernels::launch(std::span<const PlannedCall> calls, GpuStream stream,
                                bool captured) {
  const int here[] = {options_.rank};
  options_.proxy.ring();  // first: launches may block
  DeviceLaunch launch{*connections_, calls, here};
  launch.stream = stream;
  RONDO_CHECK_OK(launch_connected(launch));
  if (!captured) launched_.fetch_add(calls.size(), std::memory_order_relaxed);
  return ok_status();
}

Status InternodeKernels::launch_messages_of(const Call& call) {
  const auto call_of = [&](int rank) { return rank == options_.rank ? &call : nullptr; };
  const std::vector<ProcessMessage> messages = messages_of_collective(
      call.record, connections_->layout().ranks(), {&options_.rank, 1}, call_of);
  int peer = -1;
  return messages.empty() ? ok_status() : launch(messages, call.stream, &peer);
}

Status InternodeKernels::launch(std::span<const ProcessMessage> messages, GpuStream stream,
                                int* peer) {
  RONDO_TRY(const InternodeMessages::Launches launches, messages_->prepare(messages, peer));
  options_.proxy.ring();  // first: launches may block
  return messages_->enqueue(launches, stream);
}

bool InternodeKernels::gave_up() const {
  return HostAtomics::load_acquire(connections_->host_control(options_.rank).gave_up) != 0;
}

void InternodeKernels::end() {
  connections_->stop_kernels();
  ended_.store(true, std::memory_order_release);
}

bool InternodeKernels::progress() {
  const auto fail = [this](const Error& error) {
    (void)guarded("a fault", [&] {
      Fault found;
      found.status = error.code;
      found.rank = found.culprit = options_.rank;
      found.text = error.text;
      return options_.raise(found), ok_status();
    }).ok();
  };
  const auto step = [this]() -> Result<bool> {
    RONDO_CHECK_OK(net_proxy_->open_added());
    const bool asked = messages_->serve();
    return net_proxy_->progress() || asked;
  };
  const auto moved = guarded("connections between hosts", step, fail);
  return moved.ok() && *moved;
}

// A launched kernel may still be behind other work of its stream.
bool InternodeKernels::is_busy() const {
  if (ended_.load(std::memory_order_relaxed)) return false;
  const cuda::Control& control = connections_->host_control(options_.rank);
  return HostAtomics::load_acquire(control.progress[0].begun) <
             launched_.load(std::memory_order_relaxed) ||
         is_in_launch(*connections_, options_.rank) || messages_->is_waiting();
}

void InternodeKernels::finish() {
  const auto is_over = [this] {
    progress();
    return ended_.load(std::memory_order_acquire) || net_proxy_->flushed();
  };
  poll_until(is_over, seconds_from_now(kFlushSeconds));
  RONDO_INFO(kNet, "rank {} sent {} bytes of its kernels to other hosts", options_.rank,
             net_proxy_->sent());
  net_proxy_->close();
}

Progress InternodeKernels::kernel_progress() const {
  Progress now = progress_of(*connections_, options_.rank);
  now.traffic = net_proxy_->moved() ^ messages_->traffic();
  return now;
}

}  // namespace rondo::gpu
