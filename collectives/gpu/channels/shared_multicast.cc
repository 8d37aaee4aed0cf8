#include "collectives/gpu/channels/shared_multicast.h"

#include "base/log.h"

namespace rondo::gpu {
namespace {

// Sends the leader's descriptor to the others, which may receive none.
Result<MemoryHandle> pass(const ProcessPeers& peers, MemoryHandle own) {
  if (!peers.leads()) {
    RONDO_TRY(auto handles, receive_handles(peers.to_leader().get(),
                                            {&peers.segment->offer(0).handle}, peers.deadline));
    return std::move(handles[0]);
  }
  for (int p = 1; p < peers.processes(); ++p)
    RONDO_CHECK_OK(send_files(peers.of_process(p).get(), {&own}, peers.deadline));
  return own;
}

}  // namespace

Result<std::unique_ptr<MulticastMemory>> share_multicast(const ProcessPeers& peers, int device) {
  const auto ranks = static_cast<int>(peers.process_of.size());
  auto made = std::make_unique<MulticastMemory>(ranks, peers.first_rank(), device);
  MemoryHandle handle;
  const auto make = [&]() -> Status {
    RONDO_CHECK_OK(made->can());
    if (!peers.leads()) return ok_status();
    RONDO_CHECK_OK(made->create());
    RONDO_TRY(handle, made->handle());
    peers.segment->offer(0).handle = handle.plain;
    return ok_status();
  };
  const auto take_part = [&]() -> Status {
    if (!peers.leads()) RONDO_CHECK_OK(made->open(handle));
    return made->add();
  };
  const auto all_could = [&](const Status& own) -> Result<bool> {
    RONDO_TRY(const auto refusal, refusal_of_any(peers, own));
    if (refusal)
      RONDO_WARN("calls run without multicast memory (NVLS), since rank {} could not join: {}",
                 refusal->rank, refusal->why.text);
    return !refusal;
  };
  std::unique_ptr<MulticastMemory> none;
  RONDO_TRY(const bool can, all_could(make()));
  if (!can) return none;
  RONDO_TRY(handle, pass(peers, std::move(handle)));
  RONDO_TRY(const bool added, all_could(take_part()));
  if (!added) return none;
  RONDO_TRY(const bool bound, all_could(made->bind()));
  return bound ? std::move(made) : std::move(none);
}

}  // namespace rondo::gpu
