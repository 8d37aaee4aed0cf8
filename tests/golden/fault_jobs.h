// Jobs in which something goes wrong, and what every rank is told: the same kinds of faults on
// every placement, through nccl.h. tests/golden/files/faults_*.txt keep the texts.
//
// Three ranks make one all-reduce together; then the last rank does something else than the others.
// A rank's outcome is the error of its call, or for calls on a GPU the communicator's asynchronous
// error, with ncclGetLastError's text. No wait is longer than kMostSeconds.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/nccl.h"

namespace rondo::test {

inline constexpr int kFaultRanks = 3;

// What a rank needs of its placement. It is made on the rank's own thread.
struct RankMemory {
  void* bytes = nullptr;  // of kFaultBytes, zeros
  cudaStream_t stream = nullptr;
  std::function<void()> synchronize = [] {};
};
inline constexpr std::size_t kFaultBytes = 1 << 20;

struct FaultPlacement {
  const char* name;
  std::vector<int> processes;      // ranks of each; together kFaultRanks
  std::vector<std::string> hosts;  // NCCL_HOSTID of each process; empty: all on this host
  std::vector<std::pair<std::string, std::string>> environment;
  std::function<RankMemory(int rank)> memory;
  double seconds = 2;  // RONDO_TIMEOUT, where the deadline is what ends a call
};

// The outcomes of every kind of fault on this placement, against
// tests/golden/files/faults_NAME.txt.
void expect_golden_faults(const FaultPlacement& placement);

}  // namespace rondo::test
