#include "api/simulate.h"

#include <cstddef>

namespace rondo::api {
namespace {

// A coarse prior for ranks that share a host: order of magnitude, not a promise.
constexpr double kCallMicroseconds = 1.0;
constexpr double kRankMicroseconds = 0.3;        // per rank that has to be waited for
constexpr double kBytesPerMicrosecond = 6000.0;  // through shared memory, per rank

// How often each byte of `count` passes through this rank, in and out.
double traffic_factor(Collective which, int ranks) {
  const double others = ranks - 1;
  switch (which) {
    case Collective::kAllReduce:
      return 2 * others / ranks;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return others;
    case Collective::kBarrier:
      return 0;
    default:
      return 1;
  }
}

double microseconds(const Call& call, int ranks) {
  const double bytes =
      static_cast<double>(call.record.count) * static_cast<double>(size_of(call.record.type));
  return kCallMicroseconds + kRankMicroseconds * ranks +
         bytes * traffic_factor(call.record.collective, ranks) / kBytesPerMicrosecond;
}

}  // namespace

Done simulate(const std::vector<GroupEntry>& entries, ncclSimInfo_t* info) {
  double total = 0;
  for (const GroupEntry& entry : entries) {
    RONDO_TRY(CommPin comm, find_usable_comm(entry.comm, "GroupSimulateEnd"));
    total += microseconds(entry.request.call, comm->size);
    if (entry.request.call.parts)
      for (const Call& part : *entry.request.call.parts) total += microseconds(part, comm->size);
    for (const Call& call : entry.request.more) total += microseconds(call, comm->size);
  }
  if (info == nullptr) return done();
  constexpr unsigned kMagic = 0x74685283;
  constexpr std::size_t kNeeded = offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float);
  if (info->magic != kMagic || info->size < kNeeded)
    return fail(Status::kInvalidArgument,
                "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
  info->estimatedTime = static_cast<float>(total);
  return done();
}

}  // namespace rondo::api
