// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/device_connections.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/atomics.h"
#include "collectives/gpu/memory/device_memory.h"
#include "kernels/cuda/end_lane.h"
#include "transport/cuda/device.h"
#include "transport/memory/own_memory.h"
#include "transport/memory/pinned_file.h"

namespace rondo::gpu {
namespace {

using cuda::Control;
using cuda::DeviceEnd;

int position_of(const ChannelOrders& orders, int channel, int rank) {
  const ChannelOrders::Ring* const ring = orders.of(channel);
  if (ring == nullptr) return rank;
  const auto at = std::find(ring->ranks.begin(), ring->ranks.end(), rank);
  return static_cast<int>(at - ring->ranks.begin());
}

// Empty if arguments have room for all.
std::vector<cuda::Peer> peers_of(const DeviceConnections& connections) {
  const ConnectionLayout& layout = connections.layout();
  std::vector<cuda::Peer> peers(layout.peers_at() == 0 ? 0
                                                       : static_cast<std::size_t>(layout.ranks()));
  for (int r = 0; r < static_cast<int>(peers.size()); ++r) {
    cuda::Peer& peer = peers[static_cast<std::size_t>(r)];
    if (layout.ll_push()) peer.lines = connections.staging(r);
    if (!layout.meets()) continue;
    const auto shared = connections.shared_staging(r);
    peer = {peer.lines, connections.arrivals(r), shared.input, shared.output};
  }
  return peers;
}

}  // namespace

DeviceConnections::DeviceConnections(ConnectionLayout layout, int device, ConnectionMemory memory,
                                     std::unique_ptr<LazyBlocks> lazy)
    : api_(*gpu_api()),
      layout_(std::move(layout)),
      device_(device),
      memory_(std::move(memory)),
      lazy_(std::move(lazy)),
      bounce_(memory_.of_rank.size()),
      message_counters_(memory_.of_rank.size()) {}

Result<std::unique_ptr<DeviceConnections>> DeviceConnections::make(int device, const P2pReach& near,
                                                                   const ConnectionShape& shape,
                                                                   ChannelOrders orders) {
  ConnectionLayout layout(shape, near, {}, std::move(orders));
  ConnectionMemory memory;
  const auto own = std::make_shared<std::vector<OwnMemory>>();
  memory.keeper = own;
  RONDO_TRY(OwnMemory host,
            allocate_pinned(layout.host_bytes(), "cudaHostAlloc for the words of connections"));
  memory.host = host.get();
  std::memset(memory.host, 0, layout.host_bytes());
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  for (int r = 0; r < near.ranks(); ++r) {
    RONDO_TRY(memory.host_on_device.emplace_back(), address_on_device(host));
    RONDO_TRY(EdgeMemory of_rank,
              edge_transport(EdgeTransport::kAtReceiver).allocate(layout.bytes(r), device));
    memory.of_rank.push_back(of_rank.memory.get());
    own->push_back(std::move(of_rank.memory));
  }
  own->push_back(std::move(host));
  return open(std::move(layout), device, std::move(memory));
}

Result<std::unique_ptr<DeviceConnections>> DeviceConnections::open(ConnectionLayout layout,
                                                                   int device,
                                                                   ConnectionMemory memory) {
  std::vector<bool> here;
  for (const std::byte* const words : memory.host_on_device) here.push_back(words != nullptr);
  RONDO_TRY(auto lazy, LazyBlocks::reserve(layout, device, std::move(here)));
  std::unique_ptr<DeviceConnections> made(
      new DeviceConnections(std::move(layout), device, std::move(memory), std::move(lazy)));
  for (int r = 0; r < made->layout_.ranks(); ++r)
    if (made->is_here(r) && !made->has_bounce_buffers(r) && !made->has_fabric_slots(r))
      RONDO_CHECK_OK(made->fill(r));
  return made;
}

Status DeviceConnections::place_bounce_buffers(int rank, BounceSlots slots) {
  if (!has_bounce_buffers(rank)) return ok_status();
  BounceMemory& made = bounce_[rank];
  made.on_device = std::move(slots);
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  const EdgeTransport& network = edge_transport(EdgeTransport::kAtBothEnds);
  RONDO_TRY(EdgeMemory pinned, network.allocate(pinned_bytes(rank), device_));
  made.pinned = std::move(pinned.memory);
  RONDO_TRY(std::byte* const on_device, address_on_device(made.pinned));
  made.for_kernels.words = on_device;
  made.for_host.words = made.pinned.get();
  std::uint64_t at = layout_.bounce_word_bytes(rank);
  for (int d = 0; d < cuda::kDirections; ++d) {
    if (made.on_device[d]) {
      made.for_kernels.slots[d] = made.for_host.slots[d] = made.on_device[d].get();
      continue;
    }
    made.for_kernels.slots[d] = on_device + at;
    made.for_host.slots[d] = made.pinned.get() + at;
    at += layout_.bounce_slot_bytes(rank, d);
  }
  return has_fabric_slots(rank) ? ok_status() : fill(rank);
}

Status DeviceConnections::place_fabric_slots(int rank, FabricSlots slots) {
  if (!has_fabric_slots(rank)) return ok_status();
  assert(!fabric_ && (!has_bounce_buffers(rank) || bounce_[rank].pinned != nullptr));
  fabric_ = std::move(slots);
  return fill(rank);
}

std::uint64_t DeviceConnections::pinned_bytes(int rank) const {
  std::uint64_t bytes = layout_.bounce_word_bytes(rank);
  for (int d = 0; d < cuda::kDirections; ++d)
    if (!bounce_[rank].on_device[d]) bytes += layout_.bounce_slot_bytes(rank, d);
  return bytes;
}

std::byte* DeviceConnections::address(const ConnectionLayout::Location& place, int rank) const {
  if (place.home == ConnectionLayout::kHost) return memory_.host_on_device[rank] + place.offset;
  assert(place.home >= 0 && place.home < layout_.ranks());
  std::byte* const base = place.block == ConnectionLayout::kMain ? memory_.of_rank[place.home]
                          : place.block == ConnectionLayout::kFabric
                              ? fabric_->at(place.home)
                              : lazy_->at(place.block, place.home);
  return base + place.offset;
}

std::vector<DeviceEnd> DeviceConnections::ends_of(int rank) const {
  const ConnectionShape& shape = layout_.shape();
  std::vector<DeviceEnd> ends(static_cast<std::size_t>(shape.channels) * cuda::kChannelEnds);
  for (const ConnectionLayout::Edge& edge : layout_.edges()) {
    for (const int direction : {cuda::kOutgoing, cuda::kIncoming}) {
      const bool out = direction == cuda::kOutgoing;
      if (rank != (out ? edge.from : edge.to)) continue;
      const int index = out ? edge.out_index : edge.in_index;
      for (int protocol = 0; protocol < cuda::kProtocols; ++protocol) {
        assert(index >= 0 && index < cuda::kEnds);
        DeviceEnd& end =
            ends[((edge.channel * cuda::kProtocols + protocol) * cuda::kDirections + direction) *
                     cuda::kEnds +
                 index];
        if (edge.crosses()) {
          if (protocol != static_cast<int>(cuda::Protocol::kSimple)) continue;
          end.connection = connection_at(edge, static_cast<cuda::Direction>(direction),
                                         bounce_[rank].for_kernels);
        } else {
          end.connection.buffer = address(edge.slots[protocol], rank);
          end.connection.tail =
              reinterpret_cast<std::uint64_t*>(address(edge.tail[protocol], rank));
          end.connection.head =
              reinterpret_cast<std::uint64_t*>(address(edge.head[protocol], rank));
          end.connection.slot_bytes = layout_.slot_bytes(edge, protocol);
          end.connection.slot_count = layout_.slot_count(protocol);
          end.connection.peer = out ? edge.to : edge.from;
        }
        const int peer = out ? edge.to : edge.from;
        end.lane = cuda::end_lane(edge.lane, position_of(layout_.orders(), edge.channel, peer));
      }
    }
  }
  return ends;
}

// By channel; empty if channels go rank after rank.
std::vector<std::int32_t> DeviceConnections::orders_of(int rank) const {
  std::vector<std::int32_t> words;
  if (layout_.orders_at() == 0) return words;
  for (int c = 0; c < layout_.shape().channels; ++c) {
    const std::vector<int>& ranks = layout_.orders().of(c)->ranks;
    words.push_back(position_of(layout_.orders(), c, rank));
    words.insert(words.end(), ranks.begin(), ranks.end());
  }
  return words;
}

// The host also knows the number of launches so far; none is under way. Before them is the digest
// of their calls.
std::vector<std::uint64_t> DeviceConnections::launches_so_far(int rank) const {
  const Control& control = host_control(rank);
  const auto newest = cuda::newest_launch(control.newest);
  std::vector<std::uint64_t> words{newest ? newest->digest : 0};
  for (int c = 0; c < layout_.counted_ctas(); ++c)
    words.push_back(HostAtomics::load_acquire(control.progress[c].begun));
  return words;
}

Status DeviceConnections::fill(int rank) {
  const std::vector<DeviceEnd> ends = ends_of(rank);
  const std::vector<std::uint64_t> launched = launches_so_far(rank);
  const std::uint64_t at = layout_.launches_at() - sizeof(launched[0]);
  std::vector<std::byte> words(at + launched.size() * sizeof(launched[0]));
  std::memcpy(words.data(), ends.data(), layout_.bytes_of_ends());
  const std::vector<std::int32_t> orders = orders_of(rank);
  if (!orders.empty())
    std::memcpy(words.data() + layout_.orders_at(), orders.data(),
                orders.size() * sizeof(orders[0]));
  std::memcpy(words.data() + at, launched.data(), words.size() - at);
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  GpuStream stream = nullptr;
  RONDO_CHECK_OK(check(api_.create_stream(&stream, 0), "cudaStreamCreate"));
  GpuError error = api_.fill(memory_.of_rank[rank], 0, layout_.zeroed_bytes(rank), stream);
  if (error == kGpuSuccess)
    error = api_.copy(memory_.of_rank[rank], words.data(), words.size(), GpuCopy::kHostToDevice,
                      stream);
  const std::vector<cuda::Peer> peers = peers_of(*this);
  if (error == kGpuSuccess && !peers.empty())
    error = api_.copy(memory_.of_rank[rank] + layout_.peers_at(), peers.data(),
                      peers.size() * sizeof(peers[0]), GpuCopy::kHostToDevice, stream);
  if (error == kGpuSuccess) error = api_.synchronize_stream(stream);
  api_.destroy_stream(stream);
  return check(error, "setting up connections");
}

void DeviceConnections::list_in(DeviceMemory& all, std::span<const int> process_of) {
  lazy_->list_in(all, process_of);
  for (int r = 0; r < layout_.ranks(); ++r) {
    const std::byte* const at = memory_.of_rank[r];
    if (at == nullptr) continue;
    auto refill = [this, r] { return empty_on_host(r), fill(r); };
    if (memory_.is_packed) {
      if (is_here(r)) all.add_kept(r, layout_.bytes(r), refill);
    } else if (is_here(r)) {
      all.add(r, at, layout_.bytes(r), refill);
    } else {
      all.add_mapped(process_of[r], {MemoryNote::kConnections, static_cast<std::uint32_t>(r)}, at,
                     true);
    }
  }
}

// Zeroes what the rank's kernels write there: steps restart, and old flags would pass for new ones.
void DeviceConnections::empty_on_host(int rank) const {
  for (std::byte* const counters : message_counters_[rank])
    std::memset(counters, 0, cuda::kMessageCounterBytes * cuda::kMessageChannels);
  for (const ConnectionLayout::Edge& edge : layout_.edges()) {
    if (edge.crosses()) continue;
    for (std::size_t i = 0; i < edge.slots.size(); ++i) {
      if (edge.slots[i].home != ConnectionLayout::kHost) continue;
      if (edge.from == rank) {
        if (i != static_cast<std::size_t>(cuda::Protocol::kSimple))
          std::memset(memory_.host + edge.slots[i].offset, 0,
                      edge.tail[i].offset - edge.slots[i].offset);
        std::memset(memory_.host + edge.tail[i].offset, 0, sizeof(std::uint64_t));
      }
      if (edge.to == rank)
        std::memset(memory_.host + edge.head[i].offset, 0, sizeof(std::uint64_t));
    }
  }
}

Connection DeviceConnections::connection_at(const ConnectionLayout::Edge& edge,
                                            cuda::Direction direction,
                                            const BounceBases& bases) const {
  const ConnectionLayout::BounceBuffer& buffer = *edge.bounce_buffers[direction];
  const auto word = [&bases](std::uint64_t at) {
    return reinterpret_cast<std::uint64_t*>(bases.words + at);
  };
  Connection made{};
  made.buffer = bases.slots[direction] + buffer.slots;
  made.slot_bytes = layout_.slot_bytes(edge, static_cast<int>(cuda::Protocol::kSimple));
  made.slot_count = static_cast<std::uint64_t>(layout_.shape().slots);
  made.tail = word(buffer.tail);
  made.head = word(buffer.head);
  made.used = word(buffer.used);
  made.peer = direction == cuda::kOutgoing ? edge.to : edge.from;
  return made;
}

Connection DeviceConnections::bounce_buffer(const ConnectionLayout::Edge& edge,
                                            cuda::Direction direction) const {
  const int rank = direction == cuda::kOutgoing ? edge.from : edge.to;
  return connection_at(edge, direction, bounce_[rank].for_host);
}

DeviceEnd* DeviceConnections::ends(int rank) const {
  return reinterpret_cast<DeviceEnd*>(memory_.of_rank[rank]);
}
std::uint64_t* DeviceConnections::launches(int rank) const {
  return reinterpret_cast<std::uint64_t*>(memory_.of_rank[rank] + layout_.launches_at());
}
std::uint64_t* DeviceConnections::rounds(int rank) const {
  return reinterpret_cast<std::uint64_t*>(memory_.of_rank[rank] + layout_.rounds_at());
}
std::byte* DeviceConnections::staging(int rank) const {
  return address(layout_.push_lines_at(rank), rank);
}
std::uint64_t* DeviceConnections::cleared(int rank, ConnectionLayout::Block block) const {
  return reinterpret_cast<std::uint64_t*>(memory_.of_rank[rank] + layout_.cleared_at(block));
}
std::uint64_t* DeviceConnections::barriers(int rank) const {
  return reinterpret_cast<std::uint64_t*>(memory_.of_rank[rank] + layout_.barriers_at());
}
std::uint64_t* DeviceConnections::arrivals(int rank) const {
  return reinterpret_cast<std::uint64_t*>(address(layout_.arrivals_at(rank), rank));
}
const cuda::Peer* DeviceConnections::peers(int rank) const {
  if (layout_.peers_at() == 0) return nullptr;
  return reinterpret_cast<cuda::Peer*>(memory_.of_rank[rank] + layout_.peers_at());
}
DeviceConnections::SharedStaging DeviceConnections::shared_staging(int rank) const {
  std::byte* const input = address(layout_.shared_at(rank), rank);
  return {input, input + layout_.shared_bytes()};
}
Control* DeviceConnections::control(int rank) const {
  return reinterpret_cast<Control*>(memory_.host_on_device[rank] + layout_.control_at(rank));
}
Control& DeviceConnections::host_control(int rank) const {
  return *reinterpret_cast<Control*>(memory_.host + layout_.control_at(rank));
}

void DeviceConnections::set_message_link(int rank, int peer, cuda::Direction direction,
                                         const MessageLink& link) {
  constexpr std::uint64_t kTails = cuda::kMessageCounterBytes * cuda::kMessageChannels;
  const bool sends = direction == cuda::kOutgoing;
  const int sender = sends ? rank : peer, receiver = sends ? peer : rank;
  const FabricMessages& fabric = layout_.fabric_messages();
  const bool joined = fabric.join(sender, receiver);
  const auto counters = [&](int of, int other, cuda::Direction way) {
    return joined ? fabric_->at(of) + FabricMessages::counters_at(other, way)
                  : memory_.of_rank[of] + layout_.message_counters_at(other, way);
  };
  cuda::MessageLink made{};
  made.slots = joined ? fabric_->at(receiver) + fabric.slots_at(sender, receiver) : link.slots;
  if (link.counters != nullptr) {
    made.tails = link.counters;
    made.heads = link.counters + kTails;
    message_counters_[rank].push_back(link.counters_on_host + (sends ? 0 : kTails));
  } else {
    made.tails = counters(receiver, sender, cuda::kIncoming);
    made.heads = counters(sender, receiver, cuda::kOutgoing);
  }
  made.used = link.used;
  made.slot_bytes = link.slot_bytes;
  made.slot_count = cuda::kMessageChannelSlots;
  made.peer = peer;
  reinterpret_cast<cuda::MessageLink*>(
      memory_.host + layout_.message_links_at(rank))[peer * cuda::kDirections + direction] = made;
}

cuda::MessageArgs::Station DeviceConnections::message_station(int rank) const {
  std::byte* const host = memory_.host_on_device[rank];
  return {reinterpret_cast<DeviceEnd*>(memory_.of_rank[rank] + layout_.message_ends_at()),
          reinterpret_cast<cuda::MessageLink*>(host + layout_.message_links_at(rank)),
          reinterpret_cast<std::uint32_t*>(host + layout_.message_waits_at(rank)),
          reinterpret_cast<Control*>(host + layout_.message_control_at(rank))};
}
std::uint32_t& DeviceConnections::message_wait(int rank, int peer, int direction,
                                               int channel) const {
  return reinterpret_cast<std::uint32_t*>(
      memory_.host + layout_.message_waits_at(rank))[cuda::message_end(peer, direction, channel)];
}

void DeviceConnections::stop_kernels() {
  const auto stop = [](Control& control) {
    HostAtomics::store_release(control.abort, std::uint32_t{1});
  };
  for (int r = 0; r < layout_.ranks(); ++r) {
    if (!is_here(r)) continue;
    stop(host_control(r));
    if (layout_.messages())
      stop(*reinterpret_cast<Control*>(memory_.host + layout_.message_control_at(r)));
  }
}

}  // namespace rondo::gpu
