// SPDX-License-Identifier: Apache-2.0
// Finds out whether this rank may read private memory of the other processes of its host
// (base/process.h): it reads the id of each, which it knows from their records.
//
// The records came from ranks that have proved the secret. Cost: one system call for each rank of
// another process.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/process.h"
#include "collectives/context/init_record.h"

namespace rondo {

ProcessMemory memory_of(const RankFacts& rank);

// "" if this rank may read the memory of all `others`, ranks of other processes of its host; else
// why not, and what would allow it.
std::string obstacle_to_reads(const RankFacts& own, std::span<const RankFacts* const> others);

// The value of RONDO_CMA.
Result<MemoryReads> reads_of_environment();

}  // namespace rondo
