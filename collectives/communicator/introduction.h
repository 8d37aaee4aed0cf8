// SPDX-License-Identifier: Apache-2.0
// What a rank tells all others when it joins: who and where it is, what its environment asks for,
// and what its machine can do. From the records of all ranks each derives the same facts and plans
// (agreed_facts.h).
//
// Reads the environment and the machine; takes no part in a meeting. Fails if a variable has a
// value that cannot be read, with its name.
//
//   RONDO_TRY(const InitRecord mine, introduction(request, listener.name, address, joined));
//   session.all_gather(mine.encode());
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/process.h"
#include "collectives/context/comm_options.h"
#include "collectives/context/init_record.h"

namespace rondo {

// socket: where processes of this host reach this rank. address: where children's ranks do.
// joined: the secret that this rank joined with; only its name is told.
Result<InitRecord> introduction(const CreateRequest& request, const std::string& socket,
                                const bootstrap::UniqueId& address,
                                const bootstrap::Secret& joined);

// Finds out whether this rank may read private memory of the other processes of its host
// (base/process.h): it reads the id of each, which it knows from their records.
//
// The records came from ranks that have proved the secret. Cost: one system call for each rank of
// another process.
ProcessMemory memory_of(const RankFacts& rank);

// "" if this rank may read the memory of all `others`, ranks of other processes of its host; else
// why not, and what would allow it.
std::string obstacle_to_reads(const RankFacts& own, std::span<const RankFacts* const> others);

// The value of RONDO_CMA.
Result<MemoryReads> reads_of_environment();

}  // namespace rondo
