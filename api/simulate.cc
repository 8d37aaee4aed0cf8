// SPDX-License-Identifier: Apache-2.0
#include "api/simulate.h"

#include <cstddef>

namespace rondo::api {

namespace {

// Not inlined: GCC 12 would warn about a null communicator.
[[gnu::noinline]] double ns_of(const Comm& comm, const Call& call) {
  double ns = comm.engine()->predicted_ns(call.record);
  if (call.parts)
    for (const Call& part : *call.parts) ns += comm.engine()->predicted_ns(part.record);
  return ns;
}

}  // namespace

Status simulate(const std::vector<GroupEntry>& entries, ncclSimInfo_t* info) {
  double ns = 0;
  for (const GroupEntry& entry : entries) {
    RONDO_TRY(const CommPin comm, find_usable_comm(entry.comm, "GroupSimulateEnd"));
    ns += ns_of(*comm, entry.request.call);
    for (const Call& call : entry.request.more) ns += ns_of(*comm, call);
  }
  if (info == nullptr) return ok_status();
  constexpr unsigned kMagic = 0x74685283;
  constexpr std::size_t kNeeded = offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float);
  if (info->magic != kMagic || info->size < kNeeded)
    return fail(StatusCode::kInvalidArgument,
                "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
  info->estimatedTime = static_cast<float>(ns / 1000);
  return ok_status();
}

}  // namespace rondo::api
