#include "collectives/gpu/staging/make_host_proxy.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/communicator/child_request.h"

namespace rondo::gpu {

Result<std::unique_ptr<HostProxy>> make_host_proxy(CommunicatorState& state,
                                                   std::span<const std::vector<std::byte>> wanted,
                                                   std::string_view purpose,
                                                   std::function<bool()> aborted) {
  std::uint64_t least = ~std::uint64_t{0};
  for (const std::vector<std::byte>& one : wanted) {
    std::uint64_t bytes = 0;
    if (one.size() != sizeof(bytes))
      return fail(Status::kRemoteError, "all ranks must run the same version of Rondo");
    std::memcpy(&bytes, one.data(), sizeof(bytes));
    least = std::min(least, bytes);
  }
  const CommOptions& own = state.options;
  std::vector<int> all(static_cast<std::size_t>(state.members.size));
  std::iota(all.begin(), all.end(), 0);
  RONDO_TRY(CreateRequest request, child_request(state, all, purpose));
  request.options = own;
  request.options.device = -1;
  if (own.kernel_seconds == 0) request.options.timeout_seconds = 365.0 * 24 * 3600;
  request.aborted = std::move(aborted);
  RONDO_TRY(auto on_host, Communicator::create(request));
  const auto raise = [to = &state](Fault found) { to->faults.raise(std::move(found), false); };
  return HostProxy::make(std::move(on_host), {own.device, least, own.kernel_seconds}, raise);
}

}  // namespace rondo::gpu
