// SPDX-License-Identifier: Apache-2.0
// InternodeMessages: messages of a rank on a GPU, in a communicator of several hosts, as kernels:
// all that it sends and receives in a group, to any host, is one launch (messages.h).
//
// Slots to ranks of its host are the receiver's or the host's (message_slots.h). Others of the host
// request slots by sockets; the rank's proxy answers (serve()), so an answer never depends on what
// a program does. To another host of its NVLink clique they are the receiver's, made at init
// (FabricSlots). To any other host each side has its own slots, and its proxy moves them by a
// line for each channel of the pair (net_proxy.h), made with the pair's first message. Guarantees:
// nothing here waits for a peer's call; wait() reports which ranks the kernels wait for, and which
// ranks cannot get what was sent. Cost: that of the parts; wait() is a load per channel; a check of
// the sockets per millisecond.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/progress.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "collectives/gpu/calls/messages.h"
#include "collectives/host/rank_state.h"
#include "transport/proxy/net_proxy.h"

namespace rondo::gpu {

class InternodeMessages {
 public:
  // around: ranks of other hosts have process -1. arenas: for slots that the rank sends from and
  // receives into; null: pinned memory.
  using Arenas = std::array<std::unique_ptr<DirectArena>, cuda::kDirections>;
  InternodeMessages(RankState& state, const GpuPlan& around, ProcessMeeting meeting,
                    DeviceConnections& connections, NetProxy& net_proxy, const Arenas& arenas);

  // All messages of a group of this rank, with copies within it. peer: the rank that an error is
  // about.
  using Launches = MessagesByKernel::Launches;
  Result<Launches> prepare(std::span<const ProcessMessage> messages, int* peer) {
    return by_kernel_.prepare(messages, peer);
  }
  Status enqueue(const Launches& launches, GpuStream stream) const {
    return by_kernel_.enqueue(launches, stream);
  }
  GpuMemoryUse memory() const;  // of slots

  // On the proxy. serve(): answers others of the host; true if one has asked. wait(): ranks that
  // kernels wait for, or that what they sent waits for. is_waiting(): whether kernels wait.
  // traffic(): changes whenever they make progress.
  bool serve();
  std::optional<Wait> wait() const;
  bool is_waiting() const;
  std::uint64_t traffic() const;

 private:
  Result<MessageSlots::Slots> slots_for(const ProcessMessage& message, DirectArena* arena);
  net::Deadline deadline() const;  // of a request for slots

  RankState& state_;
  const int rank_;
  DeviceConnections& connections_;
  const NetProxy& net_proxy_;
  const std::unique_ptr<ControlSegment> segment_;
  DeviceMemory memory_{std::vector<int>{rank_}};  // never freed
  MemoryExchange exchange_;
  MessageSlots slots_;
  MessagesByKernel by_kernel_;
  std::vector<pollfd> sockets_;  // of others of the host
  std::int64_t served_at_ns_ = 0;
};

}  // namespace rondo::gpu
