// SPDX-License-Identifier: Apache-2.0
// Random groups of collectives on one communicator. All ranks generate the same group, except for
// what each rank decides alone (streams, where a group ends, alignment).
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/gpu/device_case.h"

namespace rondo::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

// The part of a group that all ranks agree on.
struct Group {
  std::vector<Case> cases;
  std::uint64_t seed = 0;
};
// large: some calls are large enough for several CTAs.
Group make_group(std::uint64_t seed, int ranks, std::size_t calls, bool large = false);

struct GroupOptions {
  int streams = 1;    // one is chosen for each call
  bool cuts = false;  // the rank sometimes ends the group early
  // Same on all ranks: calls in symmetric windows.
  enum Windows { kNone, kHalf, kAll } windows = kNone;
  bool captures = false;  // same on all ranks: captured into a graph, which is replayed
};
// Makes the calls and compares the results with the reference.
void run_group(NcclRank& seat, const Group& group, const GroupOptions& how);

// Reports the fault that ended a group, and aborts the communicator once none of its work is left
// on the device. all_report: all ranks report a fault.
void end_after_fault(NcclRank& seat, ncclResult_t result, bool all_report);

// A symmetric window over a buffer from ncclMemAlloc; all ranks make it together. The caller makes
// sure that no rank still uses it when it is destroyed.
class SymmetricWindow {
 public:
  SymmetricWindow(NcclRank& seat, DeviceBuffer& buffer);
  ~SymmetricWindow();
  SymmetricWindow(SymmetricWindow&& other) noexcept;

 private:
  ncclComm_t comm_;
  ncclWindow_t window_ = nullptr;
};

}  // namespace rondo::test
