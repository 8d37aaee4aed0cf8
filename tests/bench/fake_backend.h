// SPDX-License-Identifier: Apache-2.0
// FakeBackend: a small library for the benchmark to measure. Ranks are threads that exchange data
// through a barrier, and sums support float32 and int32. A test can make its results or calls
// wrong.
#pragma once

#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <vector>

#include "bench/backend.h"

namespace rondo::bench {

// One communicator. Hooks run on the rank's own thread.
struct FakeWorld {
  explicit FakeWorld(int ranks);

  int ranks;
  std::function<void(int rank, int call_number, const Call& call)>
      after;                                                          // after the result is written
  std::function<ncclResult_t(int rank, int call_number)> fail;        // instead of the call
  std::function<void(int rank, std::function<bool()> aborted)> hang;  // before the call
  std::barrier<> meeting;
  std::vector<Call> calls;
  std::atomic<bool> aborted{false};
};

MakeBackend fake_backends(std::shared_ptr<FakeWorld> world);

}  // namespace rondo::bench
