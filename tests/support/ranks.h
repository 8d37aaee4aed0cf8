// Runs n ranks as threads of this process, each with its communicator, and collects their results.
//
//   run_ranks(4, [&](Communicator& comm) { ... });
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/communicator.h"

namespace rondo::test {

struct RankOptions {
  CommOptions options;
};

// A fresh unique id, as ncclGetUniqueId makes it.
bootstrap::UniqueId fresh_id();

inline std::vector<std::shared_ptr<Communicator>> make_communicators(int n,
                                                                     CommOptions options = {}) {
  const bootstrap::UniqueId id = fresh_id();
  std::vector<std::shared_ptr<Communicator>> comms(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      CreateRequest request;
      request.rank = r;
      request.size = n;
      request.id = id;
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

inline void run_ranks(const std::vector<std::shared_ptr<Communicator>>& comms,
                      const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& comm : comms) threads.emplace_back([&body, comm] { body(*comm); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo::test
