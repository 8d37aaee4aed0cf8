// Reaches into a Supervisor: makes a wait as old as a test wants, and shows whom it watches.
#pragma once

#include "base/seconds.h"
#include "collectives/watchdog/supervisor.h"

namespace rondo::test {

struct SupervisorSeam {
  // The wait has lasted so long, and the next look is due.
  static void age(Supervisor& supervisor, std::int64_t waited_ns) {
    supervisor.waited_ns_ = waited_ns;
    supervisor.last_check_ns_ = now_ns() - 1'000'000;
  }
  // The waiter has not run for this time.
  static void stand(Supervisor& supervisor, std::int64_t stood_ns) {
    supervisor.last_check_ns_ = now_ns() - stood_ns;
  }
  static pollfd& pidfd(Supervisor& supervisor, int process) {
    return supervisor.pidfds_[static_cast<std::size_t>(process)];
  }
};

}  // namespace rondo::test
