#include "kernels/host/run_direct.h"

#include "kernels/algorithms/one_shot.h"
#include "kernels/algorithms/two_shot.h"
#include "kernels/host/line_memory.h"
#include "kernels/host/staged_memory.h"

namespace rondo::host {
namespace {

template <class Memory>
bool run(HostRank& rank, const HostCall& call, Algorithm algorithm, const Rounds& rounds) {
  Memory memory(rank, call);
  switch (call.record.collective) {
    case Collective::kAllReduce:
      if constexpr (std::is_same_v<Memory, StagedMemory>) {
        if (algorithm == Algorithm::kTwoShot) {
          two_shot_all_reduce(memory, rounds);
          break;
        }
      }
      one_shot_all_reduce(memory, rounds);
      break;
    default:
      return false;
  }
  return !memory.failed();
}

}  // namespace

bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, bool line,
                const Rounds& rounds) {
  return line ? run<LineMemory>(rank, call, algorithm, rounds)
              : run<StagedMemory>(rank, call, algorithm, rounds);
}

}  // namespace rondo::host
