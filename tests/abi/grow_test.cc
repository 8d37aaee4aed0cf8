// SPDX-License-Identifier: Apache-2.0
// Communicators that grow by ranks with a ticket, through the C API.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "api/nccl.h"
#include "tests/abi/ok.h"
#include "tests/support/environment.h"
#include "tests/support/nccl_rank.h"

namespace {

using rondo::test::with_ranks;

TEST(Grow, AddsRanksAndKeepsNumbers) {
  ncclUniqueId ticket;
  std::atomic<bool> have_ticket{false};
  std::thread newcomer([&] {
    while (!have_ticket) std::this_thread::yield();
    ncclComm_t comm = nullptr;
    EXPECT_OK(ncclCommGrow(nullptr, 3, &ticket, 2, &comm, nullptr));
    int x = 1, sum = 0;
    EXPECT_OK(ncclAllReduce(&x, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_EQ(sum, 3);
    EXPECT_OK(ncclCommDestroy(comm));
  });
  with_ranks(2, [&](ncclComm_t comm, int rank) {
    if (rank == 0) {
      EXPECT_OK(ncclCommGetUniqueId(comm, &ticket));
      ncclUniqueId another;
      EXPECT_EQ(ncclCommGetUniqueId(comm, &another), ncclInvalidUsage);
      have_ticket = true;
    }
    ncclComm_t larger = nullptr;
    EXPECT_OK(ncclCommGrow(comm, 3, rank == 0 ? &ticket : nullptr, -1, &larger, nullptr));
    int own = -1, x = 1, sum = 0;
    EXPECT_OK(ncclCommUserRank(larger, &own));
    EXPECT_EQ(own, rank);
    EXPECT_OK(ncclAllReduce(&x, &sum, 1, ncclInt32, ncclSum, larger, nullptr));
    EXPECT_EQ(sum, 3);
    EXPECT_OK(ncclCommDestroy(larger));
  });
  newcomer.join();
}

// All ranks compute the ticket's secret, so all of them refuse a ticket of another communicator.
TEST(Grow, TakesOnlyTheLastTicketOfThisCommunicator) {
  with_ranks(2, [](ncclComm_t comm, int rank) {
    ncclUniqueId ticket;
    EXPECT_OK(ncclGetUniqueId(&ticket));
    ncclComm_t larger = nullptr;
    EXPECT_EQ(ncclCommGrow(comm, 3, rank == 1 ? &ticket : nullptr, -1, &larger, nullptr),
              ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("rank 1 gave a unique id that is not"),
              std::string::npos)
        << ncclGetLastError(comm);
  });
}

// A ticket that could not be made leaves nothing for ncclCommGrow to use first.
TEST(Grow, GivesATicketAfterOneThatCouldNotBeMade) {
  with_ranks(1, [](ncclComm_t comm, int) {
    ncclUniqueId ticket;
    {
      const rondo::test::WithEnvironment nowhere("NCCL_SOCKET_IFNAME", "=nowhere");
      EXPECT_NE(ncclCommGetUniqueId(comm, &ticket), ncclSuccess);
    }
    EXPECT_OK(ncclCommGetUniqueId(comm, &ticket));
    EXPECT_EQ(ncclCommGetUniqueId(comm, &ticket), ncclInvalidUsage);
  });
}

}  // namespace
