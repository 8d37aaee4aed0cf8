// Ranks of the C API as threads of a test.
//
//   with_ranks(3, [](ncclComm_t comm, int rank) { ... });
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "api/nccl.h"

namespace rondo::test {

// Runs body(comm, rank) for `ranks` ranks, each on its thread; communicators are destroyed after.
inline void with_ranks(int ranks, const std::function<void(ncclComm_t, int)>& body,
                       const ncclConfig_t* config = nullptr) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
      if (config != nullptr) own = *config;
      ncclResult_t result = ncclCommInitRankConfig(&comm, ranks, id, rank, &own);
      while (result == ncclInProgress) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_EQ(ncclCommGetAsyncError(comm, &result), ncclSuccess);
      }
      ASSERT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr);
      body(comm, rank);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo::test
