// Groups of collectives by chance, of one communicator: the ranks make them alike, but for what is
// each rank's own affair (streams, where it ends a group, alignment).
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

// What the ranks of a group agree on.
struct Group {
  std::vector<Case> cases;
  std::uint64_t seed = 0;
};
// large: some calls are worth several CTAs.
Group make_group(std::uint64_t seed, int ranks, std::size_t calls, bool large = false);

struct GroupOptions {
  int streams = 1;    // of which one is chosen for each call
  bool cuts = false;  // the rank ends the group now and then
  // Of all ranks: calls in symmetric windows.
  enum Windows { kNone, kHalf, kAll } windows = kNone;
  bool captures = false;  // of all ranks: into a graph, which is replayed
};
// Makes the calls and compares with the reference.
void run_group(NcclRank& seat, const Group& group, const GroupOptions& how);

// Tells of the fault that a group ended with, and aborts the communicator: once nothing of it is
// left on the device. all_tell: all ranks do so.
void end_after_fault(NcclRank& seat, ncclResult_t result, bool all_tell);

// A symmetric window of a buffer by ncclMemAlloc, of all ranks at once. The caller sees to it that
// nobody uses it any more when it ends.
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
