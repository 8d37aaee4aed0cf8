// One rank's part of a call that the reference judges: its own buffers, everything that it may and
// may not have written.
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

// Makes the call with buffers `shift` bytes off alignment; in place by NCCL's rule. Returns what is
// wrong, or nothing. kMapped: in memory that other processes of the host can reach.
enum class Memory { kHeap, kMapped };
std::string check_call(Communicator& comm, const Case& c, bool in_place, std::size_t shift,
                       Memory memory = Memory::kHeap);

}  // namespace rondo::test
