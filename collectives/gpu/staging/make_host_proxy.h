// The communicator on the host that does calls of ranks on GPUs (host_proxy.h), and its rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/staging/host_proxy.h"

namespace rondo {
class CommunicatorState;
}

namespace rondo::gpu {

// Collective over the communicator of `state`. wanted: HostProxy::wanted_bytes() of every rank;
// purpose: one of a communicator's kind, the same on all ranks. Its faults become the state's.
Result<std::unique_ptr<HostProxy>> make_host_proxy(CommunicatorState& state,
                                                   std::span<const std::vector<std::byte>> wanted,
                                                   std::string_view purpose,
                                                   std::function<bool()> aborted);

}  // namespace rondo::gpu
