// Bulk copies of a CTA that are under way.
//
// A copy happens when somebody waits for it, or by chance while somebody looks: so code that does
// not wait finds garbage. A store reads shared memory at one time and writes at another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::simt {

struct Thread;

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
  std::vector<BulkCopy> under_way;
  unsigned groups = 0;
};

}  // namespace rondo::simt
