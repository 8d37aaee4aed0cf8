// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/internode/internode_edges.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "base/atomics.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/channels/kernel_watch.h"
#include "collectives/gpu/plan/channel_orders.h"
#include "kernels/cuda/kernels.h"
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

Result<std::shared_ptr<InternodeEdges>> InternodeEdges::open(
    RankState& state, std::shared_ptr<HostProxy> host, GpuPlan plan, ProcessMeeting meeting,
    std::unique_ptr<DeviceConnections> connections) {
  std::shared_ptr<InternodeEdges> made(
      new InternodeEdges(state, std::move(host), std::move(plan), std::move(connections)));
  RONDO_CHECK_OK(made->open(std::move(meeting)));
  return made;
}

InternodeEdges::InternodeEdges(RankState& state, std::shared_ptr<HostProxy> host, GpuPlan plan,
                               std::unique_ptr<DeviceConnections> connections)
    : state_(state),
      rank_(state.members.rank),
      host_(std::move(host)),
      plan_(std::move(plan)),
      connections_(std::move(connections)) {}

InternodeEdges::~InternodeEdges() {
  if (state_.forked()) {  // all of it is the parent's
    (void)messages_.release();
    (void)net_proxy_.release();
    (void)connections_.release();
  } else if (drives_) {
    host_->close();
  }
}

Status InternodeEdges::open(ProcessMeeting meeting) {
  for (const int kernel : {cuda::kMessagesKernel, cuda::kCountedMessagesKernel})
    RONDO_CHECK_OK(check(gpu_api()->load_kernel(kernel), "loading kernels"));
  const topology::NearNics near =
      near_by_orders(plan_.orders, state_.members.shape, rank_, state_.members.near_nics());
  constexpr int kStreams = 1;  // channels are parallel enough
  RONDO_TRY(
      auto network,
      open_network(state_.network, {.rank = rank_,
                                    .secret = state_.secret.derive("kernels between hosts").bytes(),
                                    .purpose = "slots",
                                    .streams = kStreams,
                                    .near = near,
                                    .addresses = state_.addresses}));
  RONDO_TRY(net_proxy_, NetProxy::open(std::move(network)));
  RONDO_CHECK_OK(place_slots(near));
  RONDO_TRY(fabric_, FabricSlots::make(connections_->layout(), rank_, state_.options.device));
  fabric_bytes_ = fabric_->bytes();
  messages_ = std::make_unique<InternodeMessages>(state_, plan_, std::move(meeting), *connections_,
                                                  *net_proxy_, arenas_);
  return ok_status();
}

// Places the rank's slots to other hosts, for connections now and for messages later.
Status InternodeEdges::place_slots(const topology::NearNics& near) {
  const auto rules = GpuDirectRules::from_environment();
  if (!rules.ok())
    RONDO_WARN("rank {}: {}; its slots to other hosts stay in host memory", rank_,
               rules.error().text);
  const GpuDirectFacts facts = gpu_direct_facts(state_.options.device, net_proxy_->network(), near);
  DeviceConnections::BounceSlots slots;
  Blocks blocks;
  for (const int direction : {cuda::kOutgoing, cuda::kIncoming}) {
    if (!rules.ok()) break;
    const DirectPiece piece =
        direct_slots(direction, gpu_direct(*rules, facts, direction == cuda::kOutgoing));
    slots[direction] = piece.at;
    blocks[direction] = piece.block;
  }
  RONDO_CHECK_OK(connections_->place_bounce_buffers(rank_, std::move(slots)));
  return net_proxy_->add_first(lines_of(*connections_, rank_, blocks));
}

// Empty: the slots are pinned.
DirectPiece InternodeEdges::direct_slots(int direction, const GpuDirectVerdict& verdict) {
  const char* const what = direction == cuda::kOutgoing ? "sends from" : "receives into";
  const std::uint64_t bytes = connections_->layout().bounce_slot_bytes(rank_, direction);
  auto arena = DirectArena::open(state_.options.device, verdict, bytes,
                                 [this](const DirectBlock& one) { return net_proxy_->take(one); });
  auto piece = arena.ok() ? (*arena)->take(bytes) : Result<DirectPiece>(arena.error());
  if (!piece.ok()) {
    RONDO_INFO(kNet, "rank {} {} host memory, to other hosts: {}", rank_, what, piece.error().text);
    return {};
  }
  RONDO_INFO(kNet, "rank {} {} its GPU's memory, to other hosts ({}{})", rank_, what,
             (*arena)->kind() == net::Memory::Kind::kDmabuf ? "dmabuf" : "nvidia_peermem",
             verdict.flushes      ? ", with flushes"
             : verdict.reads_back ? ", read back by the network"
                                  : "");
  arenas_[direction] = std::move(*arena);
  return std::move(*piece);
}

void InternodeEdges::add_memory(int rank, GpuMemoryUse* use) {
  const GpuMemoryUse messages = messages_->memory();
  use->device += messages.device + connections_->layout().bytes(rank) + fabric_bytes_;
  for (const auto& arena : arenas_)
    if (arena) use->device += arena->bytes();
  use->pinned += messages.pinned;
  host_->add_memory(rank, use);
}

// That of the net proxy, behind the fabric handle if the plan has cliques.
std::vector<std::byte> InternodeEdges::address() const {
  std::vector<std::byte> made = net_proxy_->address();
  if (plan_.clique_of.empty()) return made;
  const auto handle = std::as_bytes(std::span(fabric_->handle().bytes));
  made.insert(made.begin(), handle.begin(), handle.end());
  return made;
}

Status InternodeEdges::map_fabric_slots(std::span<const std::vector<std::byte>> addresses) {
  std::vector<GpuFabricHandle> handles(addresses.size());
  for (std::size_t r = 0; r < addresses.size(); ++r)
    std::memcpy(handles[r].bytes, addresses[r].data(), sizeof(handles[r].bytes));
  RONDO_CHECK_OK(fabric_->map(connections_->layout(), handles));
  return connections_->place_fabric_slots(rank_, *std::exchange(fabric_, std::nullopt));
}

Status InternodeEdges::connect(std::span<const std::vector<std::byte>> addresses,
                               const net::Deadline& deadline) {
  std::vector<std::vector<std::byte>> of_proxies;
  if (!plan_.clique_of.empty()) {
    for (const std::vector<std::byte>& address : addresses) {
      if (address.size() < sizeof(GpuFabricHandle))
        return fail(StatusCode::kRemoteError, "all ranks must run the same version of Rondo");
      of_proxies.emplace_back(address.begin() + sizeof(GpuFabricHandle), address.end());
    }
    RONDO_CHECK_OK(map_fabric_slots(addresses));
    addresses = of_proxies;
  }
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
                rank_);
  if (net_proxy_->is_open()) return ok_status();
  if (is_aborted())
    return fail(StatusCode::kInvalidUsage, "aborted while connections between hosts were opened");
  return *net_proxy_->first_end(&peer);
}

Status InternodeEdges::start() {
  drives_ = true;
  return host_->start({this, [this] { return kernel_progress(); },
                       [this] { return messages_->wait(); },
                       [this](int* peer) { return net_proxy_->first_end(peer); }});
}

void InternodeEdges::end() {
  ended_.store(true, std::memory_order_release);
  host_->end();
}

Status InternodeEdges::announce(const CallRecord& record, bool captured, Mismatch* /*mismatch*/) {
  assert(host_->status() != nullptr && "there are several hosts");
  return captured ? ok_status() : host_->status()->announce(record);
}

// Before launches: they may block.
void InternodeEdges::wake(bool captured) {
  if (captured) host_->proxy().expect_replays();
  host_->proxy().ring();
}

void InternodeEdges::launching(std::size_t calls, bool captured) {
  if (!captured) launched_.fetch_add(calls, std::memory_order_relaxed);
  wake(captured);
}

Status InternodeEdges::run_elsewhere(const CallRecord& record, std::span<const Buffers> buffers,
                                     GpuStream stream, bool captured, Mismatch* mismatch) {
  RONDO_CHECK_OK(announce(record, captured, mismatch));
  return host_->run_elsewhere(record, buffers, stream, captured, mismatch);
}

Result<TeamEdges::Enqueue> InternodeEdges::prepare(std::span<const ProcessMessage> messages,
                                                   bool captured, Mismatch* mismatch) {
  for (const ProcessMessage& message : messages)
    if (message.is_announced())
      host_->status()->notes().announce(message.from, message.to, message.record, captured);
  RONDO_TRY(auto launches, messages_->prepare(messages, &mismatch->peer));
  return Enqueue([this, captured, launches = std::move(launches)](GpuStream stream) {
    wake(captured);
    return messages_->enqueue(launches, stream);
  });
}

bool InternodeEdges::progress() {
  const auto fail = [this](const Error& error) {
    (void)guarded("a fault", [&] {
      state_.faults.raise(Fault::found_by(rank_, error.code, rank_, error.text));
      return ok_status();
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
bool InternodeEdges::is_busy() const {
  if (ended_.load(std::memory_order_relaxed)) return false;
  const cuda::Control& control = connections_->host_control(rank_);
  return HostAtomics::load_acquire(control.progress[0].begun) <
             launched_.load(std::memory_order_relaxed) ||
         is_in_launch(*connections_, rank_) || messages_->is_waiting();
}

void InternodeEdges::finish() {
  const auto is_over = [this] {
    progress();
    return ended_.load(std::memory_order_acquire) || net_proxy_->flushed();
  };
  poll_until(is_over, seconds_from_now(kFlushSeconds));
  RONDO_INFO(kNet, "rank {} sent {} bytes of its kernels to other hosts", rank_,
             net_proxy_->sent());
  net_proxy_->close();
}

Progress InternodeEdges::kernel_progress() const {
  Progress now = progress_of(*connections_, rank_);
  now.traffic = net_proxy_->moved() ^ messages_->traffic();
  return now;
}

}  // namespace rondo::gpu
