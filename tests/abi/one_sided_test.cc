// SPDX-License-Identifier: Apache-2.0
// Windows, puts and signals through the C API, ranks as threads of this process.
#include <gtest/gtest.h>

#include <string>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"

namespace {

struct Rank {
  Rank(ncclComm_t comm, int rank) : rank(rank), comm(comm) {
    EXPECT_OK(ncclMemAlloc(reinterpret_cast<void**>(&memory), sizeof(int) * 16));
    EXPECT_OK(ncclCommWindowRegister(comm, memory, sizeof(int) * 16, &window, NCCL_WIN_DEFAULT));
  }
  ~Rank() {
    EXPECT_OK(ncclCommWindowDeregister(comm, window));
    EXPECT_OK(ncclMemFree(memory));
  }
  int rank;
  ncclComm_t comm;
  ncclWindow_t window = nullptr;
  int* memory = nullptr;
};

void with_two_ranks(void (*body)(Rank&)) {
  rondo::test::with_ranks(2, [body](ncclComm_t comm, int rank) {
    Rank me(comm, rank);
    body(me);
  });
}

TEST(OneSided, PutsArriveWithTheirSignalAlsoOnStreamsAndInGroups) {
  with_two_ranks([](Rank& me) {
    const int peer = 1 - me.rank;
    for (int round = 1; round <= 20; ++round) {
      const int value = 10 * round + me.rank;
      const bool queued = round % 2 == 0, grouped = round % 3 == 0;
      rondoStream_t queue = nullptr;
      if (queued) {
        EXPECT_OK(rondoStreamCreate(&queue));
      }
      const cudaStream_t stream = queued ? rondoStreamHandle(queue) : nullptr;
      ncclWaitSignalDesc_t wanted[2] = {{1, peer, 0, 0}, {1, peer, 3, 0}};
      if (grouped) {
        EXPECT_OK(ncclGroupStart());
      }
      EXPECT_OK(ncclPutSignal(&value, 1, ncclInt, peer, me.window, 8, 0, 0, 0, me.comm, stream));
      EXPECT_OK(ncclSignal(peer, 3, 0, 0, me.comm, stream));
      EXPECT_OK(ncclWaitSignal(2, wanted, me.comm, stream));
      if (grouped) {
        EXPECT_OK(ncclGroupEnd());
      }
      if (queued) {
        EXPECT_OK(rondoStreamSynchronize(queue));
      }
      EXPECT_EQ(me.memory[2], 10 * round + peer);
      EXPECT_OK(rondoBarrier(me.comm, nullptr));
      if (queued) {
        EXPECT_OK(rondoStreamDestroy(queue));
      }
    }
  });
}

TEST(OneSided, RefusesWhatIsOutsideOfTheWindowAndWrongArguments) {
  with_two_ranks([](Rank& me) {
    const int peer = 1 - me.rank, value = 1;
    const auto put = [&](std::size_t count, std::size_t offset, int signal = 0, int context = 0) {
      return ncclPutSignal(&value, count, ncclInt, peer, me.window, offset, signal, context, 0,
                           me.comm, nullptr);
    };
    EXPECT_EQ(put(1, 61), ncclInvalidArgument);
    EXPECT_EQ(std::string(ncclGetLastError(nullptr)),
              "PutSignal : peerWinOffset 61 and 4 bytes end beyond rank " + std::to_string(peer) +
                  "'s window of 64 bytes");
    EXPECT_EQ(put(1, SIZE_MAX - 1), ncclInvalidArgument);
    EXPECT_EQ(put(17, 0), ncclInvalidArgument);
    EXPECT_EQ(put(1, 0, 8), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "PutSignal : sigIdx 8 is not in the 0..7 range");
    EXPECT_EQ(put(1, 0, 0, 1), ncclInvalidArgument);
    EXPECT_EQ(ncclSignal(2, 0, 0, 0, me.comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclSignal(peer, 0, 0, 1, me.comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclWaitSignal(1, nullptr, me.comm, nullptr), ncclInvalidArgument);
    ncclWaitSignalDesc_t none{0, peer, 0, 0};
    EXPECT_EQ(ncclWaitSignal(1, &none, me.comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclWaitSignal(0, &none, me.comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclPutSignal(&value, 1, ncclInt, peer, nullptr, 0, 0, 0, 0, me.comm, nullptr),
              ncclInvalidArgument);
    EXPECT_OK(put(1, 60));
    ncclWaitSignalDesc_t wanted{1, peer, 0, 0};
    EXPECT_OK(ncclWaitSignal(1, &wanted, me.comm, nullptr));
    EXPECT_EQ(me.memory[15], 1);
  });
}

}  // namespace
