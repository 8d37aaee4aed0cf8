// Jobs in which something goes wrong, and what every rank is told: the same kinds of faults on
// every layout, through nccl.h. tests/golden/files/faults_*.txt keep the texts.
//
// Three ranks make one all-reduce together; then the last rank does something else than the others.
// A rank's outcome is the error of its call, or for calls on a GPU the communicator's asynchronous
// error, with ncclGetLastError's text. No wait is longer than kMaxSeconds.
#pragma once

#include "tests/support/layout.h"

namespace rondo::test {

inline constexpr int kFaultRanks = 3;

struct FaultLayout {
  const char* name;
  Layout layout;       // of kFaultRanks
  double seconds = 2;  // RONDO_TIMEOUT, where the deadline is what ends a call
};

// The outcomes of every kind of fault where the ranks lie so, against
// tests/golden/files/faults_NAME.txt.
void expect_golden_faults(const FaultLayout& of);

}  // namespace rondo::test
