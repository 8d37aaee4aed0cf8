// FakeBackend: a library for the benchmark to measure, inside the test: ranks are threads that
// exchange by a barrier, sums are those of float32 and int32. A test may spoil what it does.
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
  std::function<void(int rank, int call_number, const Call& call)> after;  // the result is there
  std::function<ncclResult_t(int rank, int call_number)> fail;             // instead of the call
  std::function<void(int rank, std::function<bool()> aborted)> hang;       // before the call
  std::barrier<> meeting;
  std::vector<Call> calls;
  std::atomic<bool> aborted{false};
};

MakeBackend fake_backends(std::shared_ptr<FakeWorld> world);

}  // namespace rondo::bench
