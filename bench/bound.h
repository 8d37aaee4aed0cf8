// SPDX-License-Identifier: Apache-2.0
// Binds the calling thread to one CPU: `rondo bench --bind`, and the contestants of
// bench/compare.sh.
#pragma once

#include <sched.h>

#include <algorithm>

namespace rondo::bench {

// Binds to CPU number `turn` (modulo their count) of those that the thread may use. Call it after
// joining, so that the library counts all CPUs. If the kernel refuses, nothing changes.
inline void bind_to_cpu(int turn) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = turn % std::max(CPU_COUNT(&allowed), 1);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Binds the calling thread; the destructor restores its CPUs.
class Bound {
 public:
  explicit Bound(int turn) {
    sched_getaffinity(0, sizeof before_, &before_);
    bind_to_cpu(turn);
  }
  ~Bound() { sched_setaffinity(0, sizeof before_, &before_); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace rondo::bench
