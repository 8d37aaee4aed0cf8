// SPDX-License-Identifier: Apache-2.0
// DeviceConnections: the slots and counters of a communicator's ranks on CUDA devices, for the
// kernels over connections (kernels/cuda/connected.h).
//
// ConnectionLayout defines the offsets. The origin of the memory does not matter
// (ConnectionMemory): make() takes device memory of this process, share_connections() maps that
// of others. Guarantees: when open() returns, the memory of this process's ranks is zeroed and
// their ends are written; for a rank with neighbours on other hosts, when place_bounce_buffers()
// and place_fabric_slots() return. The memory outlives all kernels that use it (own_memory.h).
// Cost: see connection_layout.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "collectives/gpu/channels/lazy_blocks.h"
#include "collectives/gpu/plan/connection_layout.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/message_args.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::gpu {

class DeviceMemory;

// The memory of a layout at its addresses in this process; `keeper` frees it.
struct ConnectionMemory {
  std::vector<std::byte*> of_rank;         // null: no rank of this process uses it
  std::byte* host = nullptr;               // zeroed
  std::vector<std::byte*> host_on_device;  // by rank; null: in another process
  bool is_packed = false;                  // beside that of other communicators (PackedMemory)
  std::shared_ptr<void> keeper;
};

class DeviceConnections {
 public:
  // If all ranks are on one device of this process.
  static Result<std::unique_ptr<DeviceConnections>> make(int device, const P2pReach& near,
                                                         const ConnectionShape& shape,
                                                         ChannelOrders orders = {});
  // device: of this process's ranks.
  static Result<std::unique_ptr<DeviceConnections>> open(ConnectionLayout layout, int device,
                                                         ConnectionMemory memory);
  DeviceConnections(const DeviceConnections&) = delete;
  DeviceConnections& operator=(const DeviceConnections&) = delete;

  const ConnectionLayout& layout() const { return layout_; }
  // For ranks of this process:
  cuda::DeviceEnd* ends(int rank) const;    // in the rank's device memory
  std::uint64_t* launches(int rank) const;  // in the same memory
  std::uint64_t* rounds(int rank) const;    // also there, if the layout has LL push
  cuda::Control* control(int rank) const;   // its kernels' address
  // For any rank, if the layout has LL push: address for kernels of this process.
  std::byte* staging(int rank) const;
  // For ranks of this process: the table of all ranks, in device memory; null: there is none.
  const cuda::Peer* peers(int rank) const;
  // For ranks of this process: words of ClearLinesArgs::cleared.
  std::uint64_t* cleared(int rank, ConnectionLayout::Block block) const;
  // For any rank, if the layout meets: the words by which the rank's kernels synchronize with
  // others, and staging for its input and output.
  std::uint64_t* barriers(int rank) const;
  std::uint64_t* arrivals(int rank) const;
  struct SharedStaging {
    std::byte *input, *output;
  };
  SharedStaging shared_staging(int rank) const;
  // For any rank of this host: the host's address.
  cuda::Control& host_control(int rank) const;

  // For messages, if the layout has any. message_station(): a rank of this process, as its kernels
  // see it. message_wait(): the word by which kernels of any rank report that they wait.
  cuda::MessageArgs::Station message_station(int rank) const;
  std::uint32_t& message_wait(int rank, int peer, int direction, int channel) const;
  // The channels of a pair at one of its ends, for launches from now on. The counters are the
  // layout's, unless they are beside the slots, in host memory; by NVLink between hosts, the slots
  // are the layout's, too.
  struct MessageLink {
    std::byte* slots = nullptr;     // for kernels; of all channels, one after another
    std::byte* counters = nullptr;  // for kernels: of all channels, tails first; null: the layout's
    std::byte* counters_on_host = nullptr;
    std::uint64_t* used = nullptr;  // for kernels: MessageLink::used
    std::uint64_t slot_bytes = 0;
  };
  void set_message_link(int rank, int peer, cuda::Direction direction, const MessageLink& link);
  // Counters and slots of messages between ranks of this host that do not reach each other, for
  // `rank`, one of the two and of this process; null: they reach each other.
  struct HostMessages {
    std::byte *for_kernels = nullptr, *on_host = nullptr;
  };
  HostMessages host_messages(int from, int to, int rank) const {
    const auto at = layout_.host_messages_at(from, to);
    if (!at) return {};
    return {memory_.host_on_device[static_cast<std::size_t>(rank)] + *at, memory_.host + *at};
  }
  // Makes the bounce buffers of a rank of this process, before its first launch. slots: device
  // memory for the slots of each direction; null: pinned memory, beside the words.
  using BounceSlots = std::array<MappedMemory, cuda::kDirections>;
  Status place_bounce_buffers(int rank, BounceSlots slots);
  // Takes over the memory of a rank's connections by NVLink to other hosts, before its first launch
  // and after place_bounce_buffers().
  Status place_fabric_slots(int rank, FabricSlots slots);
  // One side of a connection of this process's rank to another host, for its net proxy: words at
  // the host's addresses, slots at the addresses that networks use.
  Connection bounce_buffer(const ConnectionLayout::Edge& edge, cuda::Direction direction) const;
  // Lists device memory that may be dropped while the communicator is suspended. process_of: by
  // rank; may be empty if all are in this process.
  void list_in(DeviceMemory& all, std::span<const int> process_of);
  // For slots and staging that a launch uses: see LazyBlocks::need().
  LazyBlocks& lazy() const { return *lazy_; }
  // Pinned memory for edges to other hosts.
  std::uint64_t pinned_bytes(int rank) const;
  // Ends every wait in kernels of this process, now and later.
  void stop_kernels();
  bool is_here(int rank) const {
    return memory_.host_on_device[static_cast<std::size_t>(rank)] != nullptr;
  }

 private:
  DeviceConnections(ConnectionLayout layout, int device, ConnectionMemory memory,
                    std::unique_ptr<LazyBlocks> lazy);
  Status fill(int rank);  // sets its memory to the state before its next launch
  bool has_bounce_buffers(int rank) const { return layout_.bounce_word_bytes(rank) != 0; }
  bool has_fabric_slots(int rank) const { return layout_.fabric_bytes(rank) != 0; }
  void empty_on_host(int rank) const;
  std::vector<cuda::DeviceEnd> ends_of(int rank) const;
  std::vector<std::uint64_t> launches_so_far(int rank) const;
  std::vector<std::int32_t> orders_of(int rank) const;
  // Start of a rank's bounce buffers.
  struct BounceBases {
    std::byte* words = nullptr;
    std::byte* slots[cuda::kDirections] = {};
  };
  struct BounceMemory {
    MappedMemory pinned;    // null: the rank has none
    BounceSlots on_device;  // null: in `pinned`
    BounceBases for_kernels, for_host;
  };
  Connection connection_at(const ConnectionLayout::Edge& edge, cuda::Direction direction,
                           const BounceBases& bases) const;
  std::byte* address(const ConnectionLayout::Location& place, int rank) const;

  const GpuApi& api_;
  const ConnectionLayout layout_;
  const int device_;
  ConnectionMemory memory_;
  const std::unique_ptr<LazyBlocks> lazy_;
  std::vector<BounceMemory> bounce_;   // by rank
  std::optional<FabricSlots> fabric_;  // of the process's only rank
  // By rank: counters beside slots in host memory that the rank raises. Only this rank uses them.
  std::vector<std::vector<std::byte*>> message_counters_;
};

// Makes the connections between ranks of several processes. Each process provides the memory of its
// own ranks and maps that of their neighbours. Words and slots of ranks that do not reach each
// other are in a memory file that all processes have mapped and registered with CUDA.
//
// Collective over a communicator's processes, by the sockets between them and the leader's. If a
// process cannot map memory after all (containers, a driver's refusal), or what it writes there
// does not arrive (p2p_check.h), its ranks use host memory with these neighbours, and the log says
// so. Guarantees: every process fails or none does; every wait ends with the deadline. The caller
// must let all processes return before any kernel runs. Cost: six messages per process and attempt,
// and the check's (p2p_check.h).
struct SharedConnectionsRequest {
  ProcessPeers peers;
  int device = 0;  // of this process's ranks
  ConnectionShape shape;
  P2pReach* near = nullptr;  // in: as agreed; out: without ranks that could not map each other
  ChannelOrders orders = {};
  HostsOfRanks hosts = {};       // ranks of other hosts have process -1
  std::vector<int> hidden = {};  // GpuPlan::hidden: a warning names those that cannot be mapped
};
Result<std::unique_ptr<DeviceConnections>> share_connections(
    const SharedConnectionsRequest& request);

}  // namespace rondo::gpu
