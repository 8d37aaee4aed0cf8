// The kinds of faults of tests/golden/fault_jobs.h, each as what one rank does.
#pragma once

#include <functional>
#include <vector>

#include "tests/golden/fault_jobs.h"

namespace rondo::test {

// A rank at its place. Every function makes a call, waits for its end and gives its result.
struct FaultRank {
  int rank;
  RankMemory memory;
  std::function<void(int rank)> wait_for;  // until that rank has its outcome
  ncclComm_t comm = nullptr;

  bool last() const { return rank == kFaultRanks - 1; }
  // The result of what was called: its own, or what the communicator says once the stream is done.
  ncclResult_t settled(ncclResult_t called) const;
  ncclResult_t sum(std::size_t count, ncclDataType_t type = ncclFloat32,
                   ncclRedOp_t op = ncclSum) const;
  ncclResult_t gather(std::size_t count) const;
  ncclResult_t broadcast(std::size_t count, int root) const;
  ncclResult_t send(int peer, std::size_t count) const;
  ncclResult_t receive(int peer, std::size_t count) const;
};

struct FaultKind {
  const char* name;
  bool ends_by_deadline;
  std::function<ncclResult_t(FaultRank&)> body;
  bool others_alike = true;  // all but the last rank do the same
  bool kills_last = false;   // by a signal, once the others have made their calls
  bool last_leaves = false;  // nothing is asked of the last rank
};

const std::vector<FaultKind>& fault_kinds();

}  // namespace rondo::test
