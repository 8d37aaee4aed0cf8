// Bulk copies of a CTA that are under way, and the barriers in shared memory that they arrive at.
//
// A copy happens when somebody waits for it, or by chance while somebody looks: so code that does
// not wait finds garbage. A store reads shared memory at one time and writes at another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace rondo::simt {

struct Thread;

struct Mbarrier {
  unsigned arrivals = 1;  // of a phase
  unsigned missing = 1;
  std::uint64_t bytes = 0;  // still to come
  unsigned phase = 0;

  void settle() {
    if (missing > 0 || bytes > 0) return;
    missing = arrivals;
    ++phase;
  }
};

struct BulkCopy {
  bool load;
  Thread* thread;
  std::byte* global;
  std::uint32_t shared;
  unsigned bytes;
  std::uint32_t mbarrier = 0;   // of a load
  unsigned group = 0;           // of a store; 0: not committed yet
  std::vector<std::byte> read;  // what a store has read
};

struct BulkState {
  std::map<std::uint32_t, Mbarrier> barriers;  // by place in shared memory
  std::vector<BulkCopy> under_way;
  unsigned groups = 0;
};

}  // namespace rondo::simt
