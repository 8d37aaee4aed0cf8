// Ranks as threads of this process, each with its communicator: the breadth of the tests.
//
//   auto comms = make_communicators(4);
//   run_ranks(comms, [&](Communicator& comm) { ... });
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/communicator/communicator.h"

namespace rondo::test {

using Communicators = std::vector<std::shared_ptr<Communicator>>;

inline CommOptions short_timeouts(double seconds = 60) {
  CommOptions options;
  options.timeout_seconds = seconds;
  options.init_timeout_seconds = seconds;
  return options;
}

inline Communicators make_communicators(int n, const CommOptions& options = short_timeouts()) {
  Communicators comms(n);
  auto id = bootstrap::make_unique_id();
  if (!id.ok()) {
    ADD_FAILURE() << id.error().text;
    return comms;
  }
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      CreateRequest request;
      request.rank = r;
      request.size = n;
      request.id = *id;
      request.options = options;
      auto comm = Communicator::create(request);
      if (comm.ok()) {
        comms[r] = *comm;
      } else {
        ADD_FAILURE() << "rank " << r << ": " << comm.error().text;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return comms;
}

// Runs body once per rank, each on a thread of its own.
inline void run_ranks(const Communicators& comms, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& comm : comms) {
    ASSERT_NE(comm, nullptr);
    threads.emplace_back([&body, comm] { body(*comm); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo::test
