// SPDX-License-Identifier: Apache-2.0
// InternodeMessages: messages of a rank on a GPU, in a communicator of several hosts, as kernels:
// all that it sends and receives in a group, to any host, is one launch (messages_by_kernel.h).
//
// Slots to ranks of its host are the receiver's or the host's (internode_memory.h). To another host
// each side has its own, and its proxy moves them by a line for each channel of the pair
// (net_proxy.h), made with the pair's first message. Guarantees: nothing here waits for a peer's
// call; wait() reports which ranks the kernels wait for, and which ranks cannot get what was sent.
// Cost: that of the parts; wait() is a load per channel.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/faults/progress.h"
#include "collectives/gpu/calls/messages_by_kernel.h"
#include "collectives/gpu/internode/internode_memory.h"
#include "transport/proxy/net_proxy.h"

namespace rondo::gpu {

class InternodeMessages {
 public:
  struct Options {
    int rank = 0;
    int max_ctas = 1;                         // per launch
    double limit_seconds = 0;                 // Wait::limit_seconds
    std::function<net::Deadline()> deadline;  // of a request for slots
  };
  // arenas: for slots that the rank sends from and receives into; null: pinned memory.
  using Arenas = std::array<std::unique_ptr<DirectArena>, cuda::kDirections>;
  InternodeMessages(Options options, InternodeMemory& memory, NetProxy& net_proxy, Arenas& arenas);

  // All messages of a group of this rank, with copies within it. peer: the rank that an error is
  // about.
  using Launches = MessagesByKernel::Launches;
  Result<Launches> prepare(std::span<const ProcessMessage> messages, int* peer) {
    return by_kernel_.prepare(messages, peer);
  }
  Status enqueue(const Launches& launches, GpuStream stream) const {
    return by_kernel_.enqueue(launches, stream);
  }

  // On the proxy. wait(): ranks that kernels wait for, or that what they sent waits for.
  // is_waiting(): whether kernels wait. traffic(): changes whenever they make progress.
  std::optional<Wait> wait() const;
  bool is_waiting() const;
  std::uint64_t traffic() const;

 private:
  template <class Each>
  void for_each_wait(const Each& each) const;

  const Options options_;
  InternodeMemory& memory_;
  const NetProxy& net_proxy_;
  MessagesByKernel by_kernel_;
};

}  // namespace rondo::gpu
