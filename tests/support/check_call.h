// SPDX-License-Identifier: Apache-2.0
// Checks one rank's call against the reference. It allocates the buffers and checks every byte that
// the call must and must not write.
#pragma once

#include <string>

#include "collectives/communicator/communicator.h"
#include "tests/support/reference.h"

namespace rondo::test {

inline constexpr Collective kAllCollectives[] = {
    Collective::kAllReduce,     Collective::kReduce,   Collective::kBroadcast,
    Collective::kAllGather,     Collective::kGather,   Collective::kScatter,
    Collective::kReduceScatter, Collective::kAllToAll,
};

// Makes the call with buffers `shift` bytes off alignment; in place follows NCCL's rule. Returns
// the error, or "". kMapped: memory that other processes of the host can access.
enum class Memory { kHeap, kMapped };
std::string check_call(Communicator& comm, const Case& c, bool in_place, std::size_t shift,
                       Memory memory = Memory::kHeap);

}  // namespace rondo::test
