// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/internode/internode_messages.h"

#include <algorithm>

#include "base/atomics.h"

namespace rondo::gpu {

static_assert(cuda::kMessageChannels <= kMaxProxyMessageChannels);

InternodeMessages::InternodeMessages(Options options, InternodeMemory& memory, NetProxy& net_proxy,
                                     Arenas& arenas)
    : options_(std::move(options)),
      memory_(memory),
      net_proxy_(net_proxy),
      by_kernel_({.connections = &memory.connections(),
                  .max_ctas = options_.max_ctas,
                  .is_here = [rank = options_.rank](int other) { return other == rank; },
                  .slots_for =
                      [this, &arenas](const ProcessMessage& message, bool sends) {
                        return memory_.slots(
                            message.from, message.to, sends, options_.deadline(),
                            arenas[sends ? cuda::kOutgoing : cuda::kIncoming].get());
                      },
                  .carry =
                      [this, &net_proxy](int from, int to, int channel, const Connection& end,
                                         const DirectBlock& block) {
                        net_proxy.add({net_proxy_message_link(from, to, channel), end,
                                       from == options_.rank, block});
                      }}) {}

// each(peer, slot): the peer's slot (from 1) that a channel waits for; 0: none.
template <class Each>
void InternodeMessages::for_each_wait(const Each& each) const {
  const DeviceConnections& connections = memory_.connections();
  for (int peer = 0; peer < connections.layout().ranks(); ++peer)
    for (int direction = 0; direction < cuda::kDirections; ++direction)
      for (int channel = 0; channel < cuda::kMessageChannels; ++channel)
        each(peer, HostAtomics::load_acquire(
                       connections.message_wait(options_.rank, peer, direction, channel)));
}

std::optional<Wait> InternodeMessages::wait() const {
  std::vector<int> awaited = net_proxy_.cut_off();
  for_each_wait([&](int peer, std::uint32_t slot) {
    if (slot != 0 && (awaited.empty() || awaited.back() != peer)) awaited.push_back(peer);
  });
  if (awaited.empty()) return std::nullopt;
  return Wait{kMessageInWords, std::move(awaited), options_.limit_seconds};
}

bool InternodeMessages::is_waiting() const {
  bool waits = false;
  for_each_wait([&](int, std::uint32_t slot) { waits = waits || slot != 0; });
  return waits;
}

std::uint64_t InternodeMessages::traffic() const {
  std::uint64_t mixed = 0;
  for_each_wait([&](int, std::uint32_t slot) { mixed = (mixed ^ slot) * 0x9e3779b97f4a7c15ULL; });
  return mixed;
}

}  // namespace rondo::gpu
