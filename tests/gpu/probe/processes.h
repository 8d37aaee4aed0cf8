// Processes of one probe: forked before CUDA is used, they share memory and meet in it.
//
// Guarantees: where one of them fails, the others are killed and the probe gives up; all die with
// the process that forked them.
#pragma once

#include <atomic>
#include <cstddef>

namespace probe {

void* share_memory(std::size_t bytes);  // a memory file's; zeroed, seen by what is forked later

// Counts who has come, again and again.
class Meeting {
 public:
  void meet(int count);  // returns when `count` have come, the same number for all

 private:
  std::atomic<int> arrived_{0}, over_{0};
};

void fork_all(int count, void (*run)(int rank, void* context), void* context);

// Runs body(rank) in `count` processes, until all are over.
template <class Body>
void in_processes(int count, Body body) {
  fork_all(
      count, [](int rank, void* context) { (*static_cast<Body*>(context))(rank); }, &body);
}

}  // namespace probe
