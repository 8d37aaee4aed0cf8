// SPDX-License-Identifier: Apache-2.0
// InitRecord: the message of each rank to all others when a communicator is created.
//
// decode() fails for a record that is truncated, oversized or impossible; the error names the rank.
// A record of another build of Rondo gets an error of its own, by its layout version.
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
#include "collectives/planner/planner.h"
#include "collectives/planner/protocol_filter.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo {

struct RankFacts {
  int rank = 0;
  ProcessId process{};
  std::uint64_t host = 0;  // ranks with equal values may share memory
  int pid = 0;
  std::uint32_t pid_namespace = 0;  // of the pid; 0: unknown
  std::uint64_t id_at = 0;          // address of `process` in its memory (ProcessMemory)
  std::string hostname;
  std::string socket;           // name of its UnixListener; "": it has none
  bootstrap::UniqueId address;  // its Listener, where children that it leads join
};

inline constexpr std::uint8_t kMaxClockRounds = 6;

// One rank's record of the first exchange: facts about the rank, and its settings.
struct InitRecord {
  RankFacts facts;
  std::uint64_t machine = 0;  // facts.host as sent: ranks with equal values may share cores
  AlgorithmFilter algorithms;
  ProtocolFilter protocols;
  bool reproducible = false;
  MemoryReads reads = MemoryReads::kNever;  // RONDO_CMA
  std::uint64_t verify_every = 0;           // RONDO_VERIFY: one call in this many; 0: none
  std::uint8_t clock_rounds = 0;            // exchanges by which it compares clocks of hosts
  std::uint64_t cpu_set = 0;                // ranks with equal values may run on the same cores
  std::int32_t cores = 1;                   // usable cores of that set, limited by the CPU quota
  std::uint64_t buffer_bytes = 0;           // NCCL_BUFFSIZE; 0: not set
  std::uint64_t core_cache = 0, shared_cache = 0;  // bytes of L2 and L3; 0: unknown
  bool fences_host = false;                        // prepare_host_fences()
  HostCosts costs;                                 // sent only if measured
  gpu::DeviceCosts device_costs;                   // each rate sent only if measured
  std::string network;                             // of NCCL_NET or netName; "": none
  std::int32_t device = -1;                        // the rank's CUDA device; -1: the host
  std::string bus_id;                              // of that device; "": none, or unknown
  // nonce: random. The communicator's secret is derived from the nonces of all ranks, so it never
  // repeats. secret_name: name_of() the secret that this rank joined with.
  bootstrap::Digest nonce{}, secret_name{};

  std::vector<std::byte> encode() const;
  static Result<InitRecord> decode(std::span<const std::byte> blob, int rank);
};

// The secret of the communicator whose ranks joined with `joined` and sent these records.
// kInvalidUsage if a rank joined with another secret.
Result<bootstrap::Secret> secret_of_ranks(const bootstrap::Secret& joined,
                                          std::span<const InitRecord> records);
bootstrap::Digest name_of(const bootstrap::Secret& secret);  // does not reveal the secret

}  // namespace rondo
