// SPDX-License-Identifier: Apache-2.0
// Jobs with a fault, and the error text of every rank: the same kinds of faults on every layout,
// through nccl.h. tests/golden/files/faults.txt holds the texts.
//
// Three ranks make one all-reduce together; then the last rank does something different from the
// others. A rank's outcome is the error of its call, or for calls on a GPU the communicator's
// asynchronous error, with ncclGetLastError's text. No wait is longer than kLongestWait.
#pragma once

#include "tests/support/layout.h"

namespace rondo::test {

inline constexpr int kFaultRanks = 3;

struct FaultLayout {
  const char* name;
  Layout layout;       // one entry for each of kFaultRanks
  double seconds = 2;  // RONDO_TIMEOUT, if the deadline ends the call
};

// Compares the outcomes of every kind of fault on this layout with
// tests/golden/files/faults.txt.
void expect_golden_faults(const FaultLayout& of);

}  // namespace rondo::test
