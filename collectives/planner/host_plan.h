// SPDX-License-Identifier: Apache-2.0
// PlanFacts: what the ranks of a communicator agreed on, and Plan: how one of its calls runs on
// host memory. Plain values, compared and copied; planner.h makes the second from the first.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/host_costs.h"
#include "collectives/planner/protocol_filter.h"
#include "collectives/planner/strategy.h"
#include "kernels/algorithms/table.h"
#include "kernels/primitives.h"

namespace rondo {

// Whether ranks of a host read private memory of each other's processes (process_vm_readv, CMA).
// The values of RONDO_CMA.
enum class MemoryReads : std::uint8_t { kNever, kWhereCheaper, kAlways };

// Agreed by all ranks when the communicator was created.
struct PlanFacts {
  int ranks = 1;
  int hosts = 1;
  int rails = 1;               // minimum number of ranks per host
  int largest_host = 1;        // maximum number of ranks per host
  bool aligned_hosts = false;  // see HostShape
  bool one_process = false;    // all ranks are in one process
  double core_share = 1;       // ranks per core, maximum over the hosts; at least 1
  MemoryReads reads = MemoryReads::kNever;
  bool reproducible = false;
  bool fused = false;            // this call is a group of calls; its count is their total
  std::uint64_t slot_bytes = 0;  // of a staging slot
  std::uint64_t connection_slot_bytes = 0;
  std::uint64_t link_slot_bytes = 0;     // of connections between hosts
  std::uint64_t core_cache_bytes = 0;    // smallest cache of a core (L2); 0: unknown
  std::uint64_t shared_cache_bytes = 0;  // smallest shared cache of a host (L3); 0: unknown
  AlgorithmFilter algorithms;            // allowed by NCCL_ALGO on every rank
  ProtocolFilter protocols;              // allowed by NCCL_PROTO on every rank
  HostCosts costs;                       // each rate is the slowest rank's

  bool crowded() const { return core_share > 1; }  // some host has more ranks than cores
};

enum class Protocol : std::uint8_t {
  kLine,    // data in the announcement
  kLines,   // data in cache lines next to the announcement
  kStaged,  // through staging memory, or in the callers' buffers
  kSimple,  // along connections
  kMixed,   // kStaged inside a host, kSimple between hosts
  kRead     // read from the callers' buffers, also if these are private memory
};
inline const char* name(Protocol protocol) {
  constexpr const char* kNames[] = {"line", "lines", "staged", "simple", "mixed", "read"};
  return kNames[static_cast<int>(protocol)];
}

struct Plan {
  Strategy strategy = Strategy::kDirect;
  const AlgorithmRow* row = nullptr;  // row of the algorithm; null if there is none
  Algorithm algorithm = Algorithm::kDirect;
  Protocol protocol = Protocol::kStaged;
  Rounds rounds{};      // rounds of the algorithm
  bool expose = false;  // large enough for peers to use the callers' buffers in place
  int slot_parts = 1;   // HostCall::slot_parts
  bool stream_stores = false;

  // True if it runs on the memory of this host's ranks alone.
  bool in_memory() const { return row != nullptr && row->verbs == Verbs::kPeerMemory; }
};

// How the last collective of a rank on host memory ran.
struct LastPlan {
  Algorithm algorithm = Algorithm::kDirect;
  Protocol protocol = Protocol::kStaged;
  std::uint64_t rounds = 0;
  // Bytes that this rank wrote to its staging, and read from private memory of other processes.
  std::uint64_t staged_bytes = 0, read_bytes = 0;
};

}  // namespace rondo
