// SPDX-License-Identifier: Apache-2.0
// The kinds of faults of tests/golden/fault_jobs.h, each as the actions of one rank.
#pragma once

#include <functional>
#include <vector>

#include "tests/golden/fault_jobs.h"
#include "tests/support/nccl_rank.h"

namespace rondo::test {

inline constexpr std::size_t kFaultBytes = 1 << 20;

// A rank's calls. Every function makes a call, waits for its end and returns its result.
struct FaultRank {
  explicit FaultRank(NcclRank& seat);

  NcclRank& seat;
  const int rank;
  void* bytes = nullptr;  // kFaultBytes bytes, on the rank's device or on the host
  ncclComm_t comm = nullptr;

  // Waits until that rank has its outcome.
  void wait_for(int other) const;
  bool last() const { return rank == kFaultRanks - 1; }
  // The result of a call: its own, or the communicator's error once the stream is done.
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
  bool kills_last = false;   // by SIGKILL, after the others have made their calls
  bool last_leaves = false;  // the last rank needs no outcome
};

const std::vector<FaultKind>& fault_kinds();

}  // namespace rondo::test
