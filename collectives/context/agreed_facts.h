// SPDX-License-Identifier: Apache-2.0
// Facts of a communicator for plans, equal on all ranks, and for each rank's threads. They are
// computed only from the records of all ranks, so every rank gets the same result. Cost: linear,
// plus one map look-up per rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "collectives/context/host_shape.h"
#include "collectives/context/init_record.h"
#include "collectives/planner/planner.h"
#include "topology/cpu_budget.h"

namespace rondo {

// Sets all facts except connection_slot_bytes and reads, which meet_on_hosts() sets
// (host_meeting.h).
void agree_on_facts(std::span<const InitRecord> records, const HostShape& shape, PlanFacts* facts);

// The smallest NCCL_BUFFSIZE of all ranks that set it; 0: no rank sets it.
std::uint64_t asked_buffer_bytes(std::span<const InitRecord> records);

// RONDO_VERIFY: the most frequent verification that a rank asks for; 0: none does.
std::uint64_t asked_verification(std::span<const InitRecord> records);

// An error if some ranks are on the host and others on CUDA devices.
Status check_same_kind(std::span<const InitRecord> records);

// Whether ranks of a host store without a barrier what wakes others (base/doorbell.h). All must
// fence the others when they sleep; the interrupts of that grow with the square of their number, so
// it is for 64 ranks at most. local: the ranks of the caller's host.
bool have_light_stores(std::span<const InitRecord> records, std::span<const int> local);

// For each rate on GPUs, the slowest rank's value.
gpu::DeviceCosts agree_on_device_costs(std::span<const InitRecord> records);

// How many threads share a rank's copies and sums in host memory: at most its part of the cores, so
// that the ranks of a communicator never have more threads than cores. Ranks share cores if they
// have the same machine and affinity mask. Ranks may have different numbers.
struct RankThreads {
  int threads = 1;
  std::string complaint;  // why it is not what was asked for; "": it is
};
// asked: of RONDO_THREADS; 0: all of the rank's part.
RankThreads rank_threads(std::span<const InitRecord> records, int rank, std::int64_t asked);

// A warning with its remedy if all ranks of a host may use only one and the same CPU. "": no such
// case. local: the ranks of the caller's host. mask: the CPUs that the caller may use.
std::string one_core_complaint(std::span<const InitRecord> records, std::span<const int> local,
                               const topology::CpuList& mask);

}  // namespace rondo
