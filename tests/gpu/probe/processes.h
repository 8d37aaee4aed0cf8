// SPDX-License-Identifier: Apache-2.0
// Processes of one probe: forked before CUDA is used, with shared memory in which they synchronise.
//
// Guarantees: if one of them fails, the others are killed and the probe gives up; all die with the
// process that forked them.
#pragma once

#include <atomic>
#include <cstddef>

namespace probe {

void* share_memory(std::size_t bytes);  // from a memfd; zeroed, shared with processes forked later

// Reusable barrier.
class Meeting {
 public:
  void meet(int count);  // returns when `count` have arrived; `count` is the same for all

 private:
  std::atomic<int> arrived_{0}, over_{0};
};

void fork_all(int count, void (*run)(int rank, void* context), void* context);

// Runs body(rank) in `count` processes, until all have ended.
template <class Body>
void in_processes(int count, Body body) {
  fork_all(
      count, [](int rank, void* context) { (*static_cast<Body*>(context))(rank); }, &body);
}

}  // namespace probe
