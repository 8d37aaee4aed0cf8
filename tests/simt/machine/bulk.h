// Bulk copies of a CTA that are in progress.
//
// A copy runs when a thread waits for it, or at random when a thread polls for it, so code that
// does not wait finds garbage. A store reads shared memory in one step and writes global memory in
// a later one.
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
  std::uint32_t mbarrier = 0;   // loads
  unsigned group = 0;           // stores; 0: not committed yet
  std::vector<std::byte> read;  // stores: the bytes read from shared memory
};

struct BulkState {
  std::vector<BulkCopy> under_way;
  unsigned groups = 0;
};

}  // namespace rondo::simt
