// The planner: which algorithm runs a call, in which rounds. A pure function.
//
// Its inputs are what all ranks agreed on at init (PlanFacts) and the fingerprinted fields of the
// call, so no two ranks can choose differently. The ways are rows: host_strategies.cc; the one of
// least predicted time is taken (host_work.h). What the model has no say in: tuning.h.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/host_costs.h"
#include "collectives/planner/protocol_filter.h"
#include "collectives/planner/strategy.h"
#include "kernels/algorithms/table.h"
#include "kernels/primitives.h"

namespace rondo {

// Agreed by all ranks when the communicator was made.
struct PlanFacts {
  int ranks = 1;
  int hosts = 1;
  int rails = 1;               // minimum number of ranks of a host
  int largest_host = 1;        // maximum
  bool aligned_hosts = false;  // see HostShape
  bool one_process = false;    // every rank lives in one process
  double core_share = 1;       // ranks per core, maximum over the hosts; at least 1
  bool reproducible = false;
  bool fused = false;            // this call is a group of calls; its count is their total
  std::uint64_t slot_bytes = 0;  // of a staging slot
  std::uint64_t connection_slot_bytes = 0;
  std::uint64_t link_slot_bytes = 0;     // of connections between hosts
  std::uint64_t core_cache_bytes = 0;    // the smallest of a core (L2); 0: unknown
  std::uint64_t shared_cache_bytes = 0;  // the smallest that cores of a host share (L3)
  AlgorithmFilter algorithms;            // allowed by NCCL_ALGO on every rank
  ProtocolFilter protocols;              // allowed by NCCL_PROTO on every rank
  HostCosts costs;                       // of the slowest rank, each

  bool crowded() const { return core_share > 1; }  // some host has more ranks than cores
};

enum class Protocol : std::uint8_t {
  kLine,    // data travel in the announcement
  kLines,   // in cache lines beside it
  kStaged,  // by way of staging memory, or in the callers' buffers
  kSimple,  // along connections
  kMixed    // kStaged inside a host, kSimple between hosts
};
const char* name(Protocol protocol);

struct Plan {
  Strategy strategy = Strategy::kDirect;
  const AlgorithmRow* row = nullptr;  // of the text, where there is one
  Algorithm algorithm = Algorithm::kDirect;
  Protocol protocol = Protocol::kStaged;
  Rounds rounds{};      // of the texts
  bool expose = false;  // large enough for peers to use the callers' buffers in place
  bool stream_stores = false;
};

// Fails with kInvalidUsage, naming what was asked for, where the allowed algorithms leave none. A
// barrier between hosts is planned as the sum of one int32 of every rank.
Result<Plan> make_plan(const PlanFacts& facts, const CallRecord& record);
// What the call would take by the costs of the facts, in nanoseconds; 0 where nothing can run it.
double predicted_ns(const PlanFacts& facts, const CallRecord& record);

}  // namespace rondo
