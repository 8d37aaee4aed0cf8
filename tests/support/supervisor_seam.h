// SPDX-License-Identifier: Apache-2.0
// Test access to a Supervisor: sets the age of a wait and returns the processes that it watches.
#pragma once

#include "base/seconds.h"
#include "collectives/watchdog/supervisor.h"

namespace rondo::test {

struct SupervisorSeam {
  // Makes the wait this old, and the next check due.
  static void age(Supervisor& supervisor, std::int64_t waited_ns) {
    supervisor.waited_ns_ = waited_ns;
    supervisor.last_check_ns_ = now_ns() - 1'000'000;
  }
  // The waiting thread has not run for this time.
  static void stand(Supervisor& supervisor, std::int64_t stood_ns) {
    supervisor.last_check_ns_ = now_ns() - stood_ns;
  }
  static pollfd& pidfd(Supervisor& supervisor, int process) {
    return supervisor.pidfds_[static_cast<std::size_t>(process)];
  }
};

}  // namespace rondo::test
