// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/internode/internode_messages.h"

#include <utility>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/gpu/channels/kernel_watch.h"
#include "kernels/cuda/kernels.h"

namespace rondo::gpu {
namespace {

constexpr std::int64_t kBetweenLooksNs = 1'000'000;

static_assert(cuda::kMessageChannels <= kMaxProxyMessageChannels);

}  // namespace

InternodeMessages::InternodeMessages(RankState& state, const GpuPlan& around,
                                     ProcessMeeting meeting, DeviceConnections& connections,
                                     NetProxy& net_proxy, const Arenas& arenas)
    : state_(state),
      rank_(state.members.rank),
      connections_(connections),
      net_proxy_(net_proxy),
      segment_(std::move(meeting.segment)),
      exchange_(*segment_, around.process_of[rank_], around.process_of, std::move(meeting.sockets)),
      slots_(exchange_, memory_, &connections, around, state.options.device,
             around.process_of[rank_], around.message_bytes),
      by_kernel_({.connections = &connections,
                  .max_ctas = around.message_ctas,
                  .is_here = [this](int rank) { return rank == rank_; },
                  .slots_for =
                      [this, &arenas](const ProcessMessage& message) {
                        const bool sends = message.from == rank_;
                        return slots_for(message,
                                         arenas[sends ? cuda::kOutgoing : cuda::kIncoming].get());
                      },
                  .carry =
                      [this, &net_proxy](int from, int to, int channel, const Connection& end,
                                         const DirectBlock& block) {
                        net_proxy.add(
                            {net_proxy_message_link(from, to, channel), end, from == rank_, block});
                      }}) {
  for (int p = 0; p < segment_->processes(); ++p) sockets_.push_back({exchange_.fd(p), POLLIN, 0});
}

// By NVLink between hosts the connections have the slots, from init on. arena: for the network.
Result<MessageSlots::Slots> InternodeMessages::slots_for(const ProcessMessage& message,
                                                         DirectArena* arena) {
  const int from = message.from, to = message.to;
  const FabricMessages& fabric = connections_.layout().fabric_messages();
  if (!fabric.join(from, to)) return slots_.between(from, to, deadline(), arena);
  MessageSlots::Slots slots;
  slots.bytes = fabric.pair_bytes();
  RONDO_INFO(kInit, "messages of rank {} to rank {}: {}, {} bytes of slots", from, to,
             edge_transport(EdgeTransport::kInFabric).name, slots.bytes);
  return slots;
}

net::Deadline InternodeMessages::deadline() const {
  return net::Deadline::of(to_nanoseconds(state_.timeout_seconds.load()),
                           [this] { return !state_.faults.standing().ok(); });
}

bool InternodeMessages::serve() {
  const std::int64_t now = now_ns();
  if (sockets_.size() < 2 || now - served_at_ns_ < kBetweenLooksNs) return false;
  served_at_ns_ = now;
  if (::poll(sockets_.data(), sockets_.size(), 0) <= 0) return false;
  const auto answer = [this](const MemoryNote& asked, const MemoryHandle&) -> Result<MemoryHandle> {
    if (asked.kind == MemoryNote::kSlots) return slots_.answer(asked);
    return fail(StatusCode::kInternalError, "ranks on GPUs of several hosts share slots alone");
  };
  for (std::size_t p = 0; p < sockets_.size(); ++p)
    if (sockets_[p].revents != 0) exchange_.serve(static_cast<int>(p), answer);
  return true;
}

GpuMemoryUse InternodeMessages::memory() const {
  const DeviceMemory::Bytes bytes = memory_.bytes(rank_);
  return {.device = bytes.droppable + bytes.kept, .pinned = slots_.pinned_bytes(rank_)};
}

std::optional<Wait> InternodeMessages::wait() const {
  std::vector<int> awaited = net_proxy_.cut_off();
  for_each_message_wait(connections_, rank_, [&](int peer, std::uint32_t slot) {
    if (slot != 0 && (awaited.empty() || awaited.back() != peer)) awaited.push_back(peer);
  });
  if (awaited.empty()) return std::nullopt;
  return Wait{kMessageInWords, std::move(awaited), state_.options.kernel_seconds};
}

bool InternodeMessages::is_waiting() const {
  bool waits = false;
  for_each_message_wait(connections_, rank_,
                        [&](int, std::uint32_t slot) { waits = waits || slot != 0; });
  return waits;
}

std::uint64_t InternodeMessages::traffic() const {
  std::uint64_t mixed = 0;
  for_each_message_wait(connections_, rank_, [&](int, std::uint32_t slot) {
    mixed = (mixed ^ slot) * 0x9e3779b97f4a7c15ULL;
  });
  return mixed;
}

}  // namespace rondo::gpu
