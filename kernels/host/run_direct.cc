#include "kernels/host/run_direct.h"

#include "kernels/algorithms/direct_all_gather.h"
#include "kernels/algorithms/direct_all_to_all.h"
#include "kernels/algorithms/direct_barrier.h"
#include "kernels/algorithms/direct_broadcast.h"
#include "kernels/algorithms/direct_gather.h"
#include "kernels/algorithms/direct_reduce.h"
#include "kernels/algorithms/direct_reduce_scatter.h"
#include "kernels/algorithms/direct_scatter.h"
#include "kernels/algorithms/one_shot.h"
#include "kernels/algorithms/two_shot.h"
#include "kernels/host/line_memory.h"
#include "kernels/host/segmented_memory.h"
#include "kernels/host/staged_memory.h"

namespace rondo::host {
namespace {

// Texts that publish once and deliver nothing to slots: they run on either executor.
template <class Memory>
void run_text(Memory& memory, const HostCall& call, const Rounds& rounds) {
  const int root = call.root;
  switch (call.record.collective) {
    case Collective::kAllReduce:
      return one_shot_all_reduce(memory, rounds);
    case Collective::kReduce:
      return one_shot_reduce(memory, root, rounds);
    case Collective::kBroadcast:
      return direct_broadcast(memory, root, rounds);
    case Collective::kAllGather:
      return direct_all_gather(memory, rounds);
    case Collective::kReduceScatter:
      return direct_reduce_scatter(memory, rounds);
    case Collective::kAllToAll:
      return direct_all_to_all(memory, rounds);
    case Collective::kGather:
      return direct_gather(memory, root, rounds);
    case Collective::kScatter:
      return direct_scatter(memory, root, rounds);
    default:
      return direct_barrier(memory);
  }
}

bool run_line(HostRank& rank, const HostCall& call, bool beside, const Rounds& rounds) {
  LineMemory memory(rank, call, beside);
  run_text(memory, call, rounds);
  return !memory.failed();
}

template <class Memory>
void run_staged_text(Memory& memory, const HostCall& call, Algorithm algorithm,
                     const Rounds& rounds) {
  const Collective collective = call.record.collective;
  if (collective == Collective::kAllReduce && algorithm == Algorithm::kTwoShot) {
    two_shot_all_reduce(memory, rounds);
  } else if (collective == Collective::kReduce && algorithm == Algorithm::kDirect) {
    direct_reduce(memory, call.root, rounds);
  } else {
    run_text(memory, call, rounds);
  }
}

bool run_staged(HostRank& rank, const HostCall& call, Algorithm algorithm, const Rounds& rounds) {
  StagedMemory memory(rank, call);
  run_staged_text(memory, call, algorithm, rounds);
  if (memory.failed()) memory.withdraw();
  return !memory.failed();
}

bool run_segmented(HostRank& rank, const HostCall& call, Algorithm algorithm,
                   const Rounds& rounds) {
  SegmentedMemory memory(rank, call);
  run_staged_text(memory, call, algorithm, rounds);
  return !memory.failed();
}

}  // namespace

bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, Carrier carrier,
                const Rounds& rounds) {
  if (call.segments != nullptr) return run_segmented(rank, call, algorithm, rounds);
  if (carrier == Carrier::kStaging) return run_staged(rank, call, algorithm, rounds);
  return run_line(rank, call, carrier == Carrier::kLines, rounds);
}

}  // namespace rondo::host
