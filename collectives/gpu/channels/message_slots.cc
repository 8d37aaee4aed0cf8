// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/message_slots.h"

#include <cassert>

#include "base/log.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/memory/device_memory.h"
#include "collectives/planner/message_shape.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"
#include "transport/memory/pinned_file.h"

namespace rondo::gpu {
MessageSlots::MessageSlots(MemoryExchange& exchange, DeviceMemory& memory,
                           const DeviceConnections* connections, const GpuPlan& around, int device,
                           int process, std::uint64_t staging_bytes)
    : exchange_(exchange),
      memory_(memory),
      connections_(connections),
      around_(around),
      device_(device),
      process_(process),
      staging_bytes_(staging_bytes) {}

const EdgeTransport& MessageSlots::transport(int from, int to) const {
  const auto& process_of = around_.process_of;
  return edge_transport({process_of[from] >= 0 && process_of[to] >= 0, around_.near(from, to)});
}

std::uint64_t MessageSlots::pair_bytes(const EdgeTransport& transport) const {
  return message_bytes_of_pair(staging_bytes_, around_.process_of.size(), transport.pinned);
}

int MessageSlots::owner(int from, int to) const {
  return around_.process_of[to] == process_ ? to : from;
}

Result<MessageSlots::Slots> MessageSlots::between(int from, int to, const net::Deadline& deadline,
                                                  DirectArena* arena) {
  const Pair key{to, from};
  if (const auto known = slots_.find(key); known != slots_.end()) return known->second;
  const EdgeTransport& through = transport(from, to);
  const bool over_network = through.home == EdgeTransport::kAtBothEnds;
  if (through.home == EdgeTransport::kOnHost) return slots_[key] = on_host(from, to);
  const RelaxedCapture relaxed;
  if (slots_.empty()) memory_.make_room();
  MappedMemory memory;
  DirectPiece direct;
  if (over_network || around_.process_of[to] == process_) {
    std::lock_guard lock(mutex_);
    RONDO_TRY(const Made* const made, make(from, to, over_network ? arena : nullptr));
    memory = made->memory.memory;
    direct = made->direct;
  } else {
    RONDO_CHECK_OK(connect(from, to, deadline));
    memory = mapped_[key];
  }
  Slots slots{memory.get(), nullptr, pair_bytes(through), over_network, direct};
  if (through.pinned) {
    slots.on_host = memory.get();
    const DeviceScope scope(device_);
    RONDO_CHECK_OK(scope.entered());
    RONDO_TRY(slots.at, address_on_device(memory));
  }
  slots_[key] = slots;
  return slots;
}

MessageSlots::Slots MessageSlots::on_host(int from, int to) const {
  assert(connections_ != nullptr && "GPUs that do not reach each other have connections");
  const int rank = around_.process_of[from] == process_ ? from : to;
  const auto memory = connections_->host_messages(from, to, rank);
  const std::uint64_t bytes = connections_->layout().shape().host_message_bytes;
  assert(memory.on_host != nullptr && bytes > 0);
  RONDO_INFO(kInit, "messages of rank {} to rank {}: host, {} bytes of slots", from, to, bytes);
  return {memory.for_kernels, memory.on_host, bytes, false, {}};
}

Result<const MessageSlots::Made*> MessageSlots::make(int from, int to, DirectArena* arena) {
  const Pair pair{to, from};
  if (const auto found = made_.find(pair); found != made_.end()) return &found->second;
  const EdgeTransport& through = transport(from, to);
  std::uint64_t bytes = pair_bytes(through);
  const int rank = owner(from, to);
  DirectPiece direct;
  if (arena != nullptr) {
    constexpr std::uint64_t kWords = cuda::kMessageCountersBytes + cuda::kMessageUsedBytes;
    if (auto piece = arena->take(bytes - kWords); piece.ok()) {
      direct = std::move(*piece);
      bytes = kWords;
    } else {
      RONDO_INFO(kInit, "messages of rank {} to rank {} pass through host memory: {}", from, to,
                 piece.error().text);
    }
  }
  auto made = memory_.with_room([&] { return through.allocate(bytes, device_); });
  if (!made.ok())
    return fail(made.code(),
                "{}: {} bytes for messages of rank {} to rank {}; RONDO_GPU_STAGING sets how much "
                "a rank gets for all others",
                made.error().text, bytes, from, to);
  RONDO_INFO(kInit, "messages of rank {} to rank {}: {}, {} bytes of slots{}", from, to,
             through.name, pair_bytes(through), direct.block ? " in GPU memory" : "");
  if (!through.pinned) {
    memory_.add(rank, made->memory.get(), bytes);
    made->handle = {};  // it would keep the memory allocated
  }
  return &made_.emplace(pair, Made{std::move(*made), bytes, std::move(direct)}).first->second;
}

Status MessageSlots::connect(int from, int to, const net::Deadline& deadline) {
  MappedMemory& mapped = mapped_[{to, from}];
  if (mapped != nullptr) return ok_status();
  const auto ranks = static_cast<std::uint32_t>(around_.process_of.size());
  const auto pair = static_cast<std::uint32_t>(from) * ranks + static_cast<std::uint32_t>(to);
  RONDO_TRY(const auto reply,
            exchange_.ask(around_.process_of[to], {MemoryNote::kSlots, pair}, {}, deadline));
  const EdgeTransport& through = transport(from, to);
  auto connected = through.connect(reply.handle, pair_bytes(through), device_);
  if (!connected.ok())
    return fail(connected.code(),
                "{}: memory of rank {} for messages of rank {} cannot be mapped; with "
                "NCCL_P2P_DISABLE=1 they pass through the host",
                connected.error().text, to, from);
  mapped = std::move(*connected);
  if (!through.pinned)
    memory_.add_mapped(around_.process_of[to], {MemoryNote::kSlots, pair}, mapped.get());
  return ok_status();
}

Result<MemoryHandle> MessageSlots::answer(const MemoryNote& asked) {
  const std::size_t ranks = around_.process_of.size();
  const std::size_t from = asked.what / ranks, to = asked.what % ranks;
  if (from >= ranks || around_.process_of[to] != process_)
    return fail(StatusCode::kInternalError, "ranks {} and {} were asked for slots", from, to);
  const RelaxedCapture relaxed;
  std::lock_guard lock(mutex_);
  RONDO_TRY(const Made* const made, make(static_cast<int>(from), static_cast<int>(to)));
  const EdgeMemory& memory = made->memory;
  if (memory.handle.plain.kind != PlainHandle::kNone) return memory.handle.clone();
  return memory_registry().export_range(memory.memory.get(), 1);
}

std::uint64_t MessageSlots::pinned_bytes(int rank) const {
  std::uint64_t sum = 0;
  if (connections_ != nullptr) {
    const ConnectionLayout& layout = connections_->layout();
    for (int from = 0; from < layout.ranks(); ++from)
      if (layout.host_messages_at(from, rank)) sum += layout.shape().host_message_bytes;
  }
  std::lock_guard lock(mutex_);
  for (const auto& [pair, made] : made_) {
    const EdgeTransport& through = transport(pair.second, pair.first);
    if (owner(pair.second, pair.first) == rank && through.pinned) sum += made.bytes;
  }
  return sum;
}

}  // namespace rondo::gpu
