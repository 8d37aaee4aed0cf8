// SPDX-License-Identifier: Apache-2.0
// Violations: actions of a program on the emulated GPU that can fail on a real one.
//
// A violation is printed with the seed that reproduces it and ends the process, unless a test
// expects one: while an ExpectViolations object exists, violations of the process are collected in
// it, and the kernel that caused one ends with a CUDA error. (Calls that CUDA itself refuses are no
// violations: they return CUDA's error.)
#pragma once

#include <string>
#include <vector>

namespace rondo::simt {

enum class Violation {
  kBadAccess,     // outside every allocation, or on a device without access
  kUseAfterFree,  // of device memory
  kBarrier,       // a barrier, vote or shuffle that cannot complete, or with unequal counts
  kForeignSpin,   // a kernel spins while another process waits for the same device
  kOpenRead,      // memory is overwritten while another thread may still be reading it
  kLaneRace,      // a lane reads shared memory that another lane has written, without a barrier
  kDomain,        // a kernel in its device's memory-sync domain writes to another device
  kProxy,  // memory is accessed through another proxy than it was written by, without a proxy fence
  kContext,  // a driver call on a thread without a context
  kLoading,  // a launch loads its kernel while another kernel spins on the device
  kRecords,  // a graph records one event several times, in no defined order
  kThread,   // a thread makes a driver call that its list does not have (device/thread_calls.h)
};
const char* name(Violation kind);

// Collects it, or prints it and aborts. `text` is a sentence without the seed.
void report(Violation kind, std::string text);

// Printed with every violation: how to repeat the run.
void set_reproducer(std::string text);
std::string reproducer();

class ExpectViolations {
 public:
  ExpectViolations();
  ~ExpectViolations();
  ExpectViolations(const ExpectViolations&) = delete;
  ExpectViolations& operator=(const ExpectViolations&) = delete;

  bool saw(Violation kind) const;
  std::vector<std::string> texts() const;
};

}  // namespace rondo::simt
