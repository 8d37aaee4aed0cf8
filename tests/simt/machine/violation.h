// Violations: what a program on the emulated GPU did that a real one would punish now or some day.
//
// A violation is printed with the seed that reproduces it and ends the process, unless a test
// expects one: while an ExpectViolations lives, violations of the process are collected there, and
// the kernel that caused one is given up with a CUDA error. (Calls that CUDA itself refuses are
// no violations: they return CUDA's error.)
#pragma once

#include <string>
#include <vector>

namespace rondo::simt {

enum class Violation {
  kBadAccess,     // outside every allocation, or on a device that may not touch it
  kUseAfterFree,  // of device memory
  kBarrier,       // a barrier, vote or shuffle that cannot complete, or with unequal counts
  kForeignSpin,   // a kernel spins while another process waits for the same device
  kOpenRead,      // memory is overwritten that another thread may still be reading
  kDomain,        // a kernel in its device's memory-sync domain writes to another device
  kProxy,         // memory is touched another way than it was written, without a proxy fence
  kContext,       // a call of the driver on a thread without a context
  kLoading,       // a launch loads its kernel while another one spins on the device
  kRecords,       // a graph records one event several times, in no order
};
const char* name(Violation kind);

// Records it, or prints it and aborts. `text` is a sentence without the seed.
void report(Violation kind, std::string text);

// Printed beside every violation: how to repeat the run.
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
