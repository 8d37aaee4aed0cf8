// What the ranks of a communicator agree on for its plans, from the records of all and nothing
// else, so that all ranks compute the same. Cost: linear but for a search among the sets of cores a
// rank.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/communicator/host_shape.h"
#include "collectives/communicator/init_record.h"
#include "collectives/planner/planner.h"

namespace rondo {

// All but connection_slot_bytes, which is agreed on before ranks of a host meet (host_meeting.h).
void agree_on_facts(std::span<const InitRecord> records, const HostShape& shape, PlanFacts* facts);

// What NCCL_BUFFSIZE asks for on any rank, the least where they differ; 0: nobody asks.
std::uint64_t asked_buffer_bytes(std::span<const InitRecord> records);

// An error on all ranks where some ranks live on the host and others on CUDA devices.
Status check_same_kind(std::span<const InitRecord> records);

// Of each rate on GPUs the slowest rank's.
gpu::DeviceCosts agree_on_device_costs(std::span<const InitRecord> records);

}  // namespace rondo
