// InitRecord: what each rank tells all others when a communicator is made.
//
// decode() believes nothing that a rank could not have sent: it fails, naming that rank, on what is
// cut short, oversized or impossible. Another build is told from a broken record by its version.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/device_rates.h"
#include "collectives/planner/host_costs.h"
#include "collectives/planner/protocol_filter.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo {

struct RankFacts {
  int rank = 0;
  ProcessId process{};
  std::uint64_t host = 0;  // ranks with equal values may share memory
  int pid = 0;
  std::string hostname;
  std::string socket;           // of its UnixListener
  bootstrap::UniqueId address;  // of its Listener: where the children that it leads meet
};

// One rank's record of the first round: facts about it and what it would like to be agreed.
struct InitRecord {
  RankFacts facts;
  std::uint64_t machine = 0;  // facts.host as it was told: ranks with equal ones may share cores
  AlgorithmFilter algorithms;
  ProtocolFilter protocols;
  bool reproducible = false;
  std::uint64_t cpu_set = 0;       // ranks with equal ones may run on the same cores
  std::int32_t cores = 1;          // of that set, as far as the quota goes
  std::uint64_t buffer_bytes = 0;  // NCCL_BUFFSIZE; 0: not set
  std::uint64_t core_cache = 0, shared_cache = 0;  // bytes of its L2 and L3; 0: unknown
  HostCosts costs;                                 // travel where they were measured,
  gpu::DeviceCosts device_costs;                   // each by itself
  std::string network;                             // that NCCL_NET or netName asks for; "": none
  std::int32_t device = -1;  // the CUDA device that the rank lives on, or -1: the host
  std::string bus_id;        // of that device; empty: none, or not known
  // Random, of every rank: the communicator's secret derives from all, so that it is never again
  // the same; and a name of the secret that this rank joined with.
  bootstrap::Digest nonce{}, secret_name{};

  std::vector<std::byte> encode() const;
  static Result<InitRecord> decode(std::span<const std::byte> blob, int rank);
};

// The secret of the communicator whose ranks joined with `joined` and sent these records.
// kInvalidUsage where one of them joined with another.
Result<bootstrap::Secret> secret_of_ranks(const bootstrap::Secret& joined,
                                          std::span<const InitRecord> records);
bootstrap::Digest name_of(const bootstrap::Secret& secret);  // tells nothing about it

}  // namespace rondo
