// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/run_direct.h"

#include <type_traits>

#include "kernels/algorithms/run_algorithm.h"
#include "kernels/host/line_memory.h"
#include "kernels/host/segmented_memory.h"
#include "kernels/host/staged_memory.h"

namespace rondo::host {
namespace {

template <class Memory>
struct DirectAlgorithm {
  Memory& memory;
  int root;
  const Rounds& rounds;

  static constexpr bool runs(const AlgorithmRow& row) {
    return row.verbs == Verbs::kPeerMemory &&
           (row.fits_lines || !std::is_same_v<Memory, LineMemory>);
  }
};

template <class Memory>
bool run(Memory& memory, const HostCall& call, Algorithm algorithm, const Rounds& rounds) {
  DirectAlgorithm<Memory> text{memory, call.root, rounds};
  return run_algorithm(text, algorithm, call.record.collective) && !memory.failed();
}

}  // namespace

bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, Carrier carrier,
                const Rounds& rounds) {
  if (call.segments != nullptr) {
    SegmentedMemory memory(rank, call);
    return run(memory, call, algorithm, rounds);
  }
  if (carrier == Carrier::kStaging) {
    StagedMemory memory(rank, call);
    const bool ran = run(memory, call, algorithm, rounds);
    if (memory.failed()) memory.withdraw();
    return ran;
  }
  LineMemory memory(rank, call, carrier == Carrier::kLines);
  return run(memory, call, algorithm, rounds);
}

}  // namespace rondo::host
