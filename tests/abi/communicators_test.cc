// SPDX-License-Identifier: Apache-2.0
// Communicators through the C API, ranks as threads of this process.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"

namespace {

using rondo::test::with_ranks;

TEST(Communicators, KnowTheirRanksAndRefuseWrongArguments) {
  with_ranks(2, [](ncclComm_t comm, int rank) {
    int count = 0, own = -1;
    EXPECT_OK(ncclCommCount(comm, &count));
    EXPECT_OK(ncclCommUserRank(comm, &own));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(own, rank);
    float x = 1, y = 0;
    EXPECT_EQ(ncclBroadcast(&x, &y, 1, ncclFloat, 2, comm, nullptr), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr),
                 "Broadcast : invalid root 2 (root should be in the 0..1 range)");
    EXPECT_EQ(ncclAllReduce(&x, &y, 1, static_cast<ncclDataType_t>(12), ncclSum, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "AllReduce : invalid type 12");
    EXPECT_EQ(ncclAllReduce(&x, &y, 1, ncclFloat, static_cast<ncclRedOp_t>(5), comm, nullptr),
              ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr),
                 "AllReduce : reduction operation 5 unknown to this communicator");
    EXPECT_EQ(ncclAllReduce(&x, &y, 1, ncclFloat, static_cast<ncclRedOp_t>(-1), comm, nullptr),
              ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "AllReduce : invalid reduction operation -1");
    EXPECT_EQ(ncclAllReduce(&x, &y, 1, ncclFloat, rondoBand, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(&x, 1, ncclFloat, rank, comm, nullptr), ncclInvalidUsage);
    EXPECT_STREQ(ncclGetLastError(nullptr), "Trying to send to self without a matching recv");
    EXPECT_EQ(ncclSend(&x, 1, ncclFloat, 9, comm, nullptr), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "Send : invalid peer 9 (ranks are 0..1)");
    EXPECT_EQ(ncclAllReduce(&x, &y, SIZE_MAX / 2, ncclFloat, ncclSum, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_OK(ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(y, 2);
  });
}

TEST(Communicators, OnTheHostRefuseACallsCudaEvent) {
  setenv("RONDO_DEVICE", "host", 1);
  with_ranks(1, [](ncclComm_t comm, int) {
    float x = 1;
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&x);
    EXPECT_EQ(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr, &config),
              ncclInvalidUsage);
    EXPECT_STREQ(ncclGetLastError(nullptr),
                 "launchCompletionEvent is a CUDA event; this communicator runs on the host");
  });
  unsetenv("RONDO_DEVICE");
}

TEST(Communicators, ReduceBitsAndShorts) {
  with_ranks(2, [](ncclComm_t comm, int rank) {
    const std::uint32_t bits = rank == 0 ? 0xf0f0 : 0xff00;
    std::uint32_t result = 0;
    EXPECT_OK(ncclAllReduce(&bits, &result, 1, ncclUint32, rondoBand, comm, nullptr));
    EXPECT_EQ(result, 0xf000u);
    EXPECT_OK(ncclAllReduce(&bits, &result, 1, ncclUint32, rondoBxor, comm, nullptr));
    EXPECT_EQ(result, 0x0ff0u);
    const std::int16_t small = static_cast<std::int16_t>(-100 - rank);
    std::int16_t sum = 0;
    EXPECT_OK(ncclAllReduce(&small, &sum, 1, rondoInt16, ncclSum, comm, nullptr));
    EXPECT_EQ(sum, -201);
  });
}

TEST(Communicators, AnOperationBelongsToOneAndOutlivesItsDestructionInCalls) {
  with_ranks(2, [](ncclComm_t comm, int) {
    ncclRedOp_t op;
    float factor = 3;
    EXPECT_OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm));
    factor = 0;
    float x = 1, y = 0;
    rondoStream_t stream;
    EXPECT_OK(rondoStreamCreate(&stream));
    EXPECT_OK(ncclAllReduce(&x, &y, 1, ncclFloat, op, comm, rondoStreamHandle(stream)));
    EXPECT_OK(ncclRedOpDestroy(op, comm));
    EXPECT_OK(rondoStreamSynchronize(stream));
    EXPECT_EQ(y, 6);
    EXPECT_EQ(ncclAllReduce(&x, &y, 1, ncclFloat, op, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
    EXPECT_OK(rondoStreamDestroy(stream));
  });
}

// As in NCCL, an operation belongs to one rank, so its factor may differ between ranks.
TEST(Communicators, EveryRankMayScaleByAFactorOfItsOwn) {
  with_ranks(3, [](ncclComm_t comm, int rank) {
    float factor = static_cast<float>(rank + 2);
    ncclRedOp_t op;
    // One of them reads its factor only when the call runs.
    const auto place = rank == 1 ? ncclScalarDevice : ncclScalarHostImmediate;
    EXPECT_OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, place, comm));
    for (const std::size_t count : {1u, 500u, 60'000u})
      for (const char* algorithm : {"", "ring"}) {
        ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
        if (*algorithm != '\0') config.algSelection = algorithm;
        std::vector<float> in(3 * count, static_cast<float>(rank + 1)), out(3 * count, -1);
        EXPECT_OK(ncclAllReduceConfig(in.data(), out.data(), 3 * count, ncclFloat, op, comm,
                                      nullptr, &config));
        const float sum = 1 * 2 + 2 * 3 + 3 * 4;
        EXPECT_EQ(out, std::vector<float>(3 * count, sum)) << algorithm << ' ' << count;
        out.assign(count, -1);
        EXPECT_OK(ncclReduceScatter(in.data(), out.data(), count, ncclFloat, op, comm, nullptr));
        EXPECT_EQ(out, std::vector<float>(count, sum)) << count;
        out.assign(count, -1);
        EXPECT_OK(ncclReduce(in.data(), out.data(), count, ncclFloat, op, 2, comm, nullptr));
        EXPECT_EQ(out, std::vector<float>(count, rank == 2 ? sum : -1)) << count;
      }
    EXPECT_OK(ncclRedOpDestroy(op, comm));
  });
}

TEST(Streams, RunCallsInOrderBesideTheCaller) {
  with_ranks(3, [](ncclComm_t comm, int) {
    rondoStream_t a, b;
    EXPECT_OK(rondoStreamCreate(&a));
    EXPECT_OK(rondoStreamCreate(&b));
    std::int64_t values[20] = {1};
    for (int i = 0; i + 1 < 20; ++i)  // each call reads the result of the previous one
      EXPECT_OK(ncclAllReduce(&values[i], &values[i + 1], 1, ncclInt64, ncclSum, comm,
                              rondoStreamHandle(i % 2 == 0 ? a : b)));
    std::int64_t last = 0;
    EXPECT_OK(ncclAllReduce(&values[19], &last, 1, ncclInt64, ncclMax, comm, nullptr));
    std::int64_t expected = 1;
    for (int i = 0; i + 1 < 20; ++i) expected *= 3;
    EXPECT_EQ(last, expected);
    EXPECT_OK(rondoStreamSynchronize(a));
    EXPECT_OK(rondoStreamSynchronize(b));
    EXPECT_EQ(rondoStreamQuery(a), ncclSuccess);
    EXPECT_OK(rondoStreamDestroy(a));
    EXPECT_OK(rondoStreamDestroy(b));
  });
}

TEST(Streams, OfOthersAreRefused) {
  with_ranks(1, [](ncclComm_t comm, int) {
    float x = 1;
    EXPECT_EQ(
        ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, reinterpret_cast<cudaStream_t>(&x)),
        ncclInvalidArgument);
  });
}

TEST(Nonblocking, CommunicatorsReturnInProgressUntilTheCallIsDone) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  with_ranks(
      2,
      [](ncclComm_t comm, int rank) {
        int x = rank + 1, y = 0;
        ncclResult_t state = ncclAllReduce(&x, &y, 1, ncclInt32, ncclSum, comm, nullptr);
        EXPECT_EQ(state, ncclInProgress);
        while (state == ncclInProgress) {
          std::this_thread::yield();
          EXPECT_OK(ncclCommGetAsyncError(comm, &state));
        }
        EXPECT_EQ(state, ncclSuccess);
        EXPECT_EQ(y, 3);
      },
      &config);
}

TEST(Groups, RunSeveralRanksOfOneThread) {
  ncclComm_t comms[4];
  EXPECT_OK(ncclCommInitAll(comms, 4, nullptr));
  std::vector<float> in(4 * 1000), out(4 * 1000);
  std::iota(in.begin(), in.end(), 0.f);
  EXPECT_OK(ncclGroupStart());
  for (int r = 0; r < 4; ++r) {
    EXPECT_OK(ncclReduceScatter(&in[0], &out[static_cast<std::size_t>(r) * 1000], 250, ncclFloat,
                                ncclSum, comms[r], nullptr));
    EXPECT_OK(ncclSend(&in[0], 10, ncclFloat, (r + 1) % 4, comms[r], nullptr));
    EXPECT_OK(ncclRecv(&out[static_cast<std::size_t>(r) * 1000 + 500], 10, ncclFloat, (r + 3) % 4,
                       comms[r], nullptr));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(out[static_cast<std::size_t>(r) * 1000 + 7], 4.f * static_cast<float>(r * 250 + 7));
    EXPECT_EQ(out[static_cast<std::size_t>(r) * 1000 + 509], 9.f);
  }
  EXPECT_OK(ncclGroupStart());
  for (ncclComm_t comm : comms) EXPECT_OK(ncclCommDestroy(comm));
  EXPECT_OK(ncclGroupEnd());
}

TEST(Groups, SimulateReportsATimeAndRunsNothing) {
  with_ranks(2, [](ncclComm_t comm, int) {
    float x = 1, y = 0;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_OK(ncclGroupStart());
    EXPECT_OK(ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_OK(ncclGroupSimulateEnd(&info));
    EXPECT_GT(info.estimatedTime, 0);
    EXPECT_EQ(y, 0);
  });
}

TEST(Split, MakesOrderedChildrenAndNoneForNoColor) {
  with_ranks(3, [](ncclComm_t comm, int rank) {
    ncclComm_t child = comm;
    EXPECT_OK(ncclCommSplit(comm, rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, -rank, &child, nullptr));
    if (rank == 1) {
      EXPECT_EQ(child, nullptr);
      return;
    }
    int own = -1, size = 0;
    EXPECT_OK(ncclCommUserRank(child, &own));
    EXPECT_OK(ncclCommCount(child, &size));
    EXPECT_EQ(size, 2);
    EXPECT_EQ(own, rank == 2 ? 0 : 1);
    EXPECT_OK(ncclCommDestroy(child));
  });
}

// With this many ranks an unstable sort does not keep their order by chance.
TEST(Split, OrdersRanksOfOneKeyAsTheParentDoes) {
  constexpr int kRanks = 20;
  const auto child_rank = [](ncclComm_t comm, int key) {
    ncclComm_t child = nullptr;
    int own = -1;
    EXPECT_OK(ncclCommSplit(comm, 0, key, &child, nullptr));
    EXPECT_OK(ncclCommUserRank(child, &own));
    EXPECT_OK(ncclCommDestroy(child));
    return own;
  };
  with_ranks(kRanks, [&](ncclComm_t comm, int rank) {
    EXPECT_EQ(child_rank(comm, 7), rank);
    // The odd ranks first, then the even ones.
    EXPECT_EQ(child_rank(comm, -(rank % 2)), rank % 2 == 1 ? rank / 2 : kRanks / 2 + rank / 2);
  });
}

TEST(Ending, SuspendedFinalizedAndRevokedOnesRefuseCalls) {
  with_ranks(2, [](ncclComm_t comm, int) {
    int x = 1, y = 0;
    EXPECT_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_EQ(ncclAllReduce(&x, &y, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
    EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage);
    EXPECT_OK(ncclCommResume(comm));
    EXPECT_OK(ncclAllReduce(&x, &y, 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_OK(ncclCommFinalize(comm));
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&x, &y, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
  });
  with_ranks(2, [](ncclComm_t comm, int) {
    int x = 1;
    EXPECT_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
    EXPECT_STREQ(ncclGetLastError(nullptr), "AllReduce: communicator was revoked");
  });
}

TEST(Ending, AbortFreesACallThatWaitsForSomebodyWhoNeverComes) {
  ncclComm_t comms[2];
  EXPECT_OK(ncclCommInitAll(comms, 2, nullptr));
  std::thread blocked([&] {
    int x = 1;
    EXPECT_NE(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comms[0], nullptr), ncclSuccess);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_OK(ncclCommAbort(comms[0]));
  blocked.join();
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclInvalidArgument);
  ncclResult_t state = ncclSuccess;
  EXPECT_OK(ncclCommGetAsyncError(comms[1], &state));
  EXPECT_EQ(state, ncclRemoteError);
  rondoFault_t fault{};
  fault.size = sizeof(fault);
  EXPECT_OK(rondoCommGetFault(comms[1], &fault));
  EXPECT_EQ(fault.result, ncclRemoteError);
  EXPECT_EQ(fault.culprit, 0);
  EXPECT_NE(std::string(fault.sentence).find("rank 0"), std::string::npos) << fault.sentence;
  EXPECT_OK(ncclCommAbort(comms[1]));
}

TEST(Communicators, OneHostHasNoNetworkRate) {
  with_ranks(2, [](ncclComm_t comm, int) {
    double rate = -1;
    EXPECT_OK(rondoCommNetworkRate(comm, &rate));
    EXPECT_EQ(rate, 0);
    EXPECT_EQ(rondoCommNetworkRate(comm, nullptr), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "CommNetworkRate : bytesPerSecond argument is NULL");
    EXPECT_EQ(rondoCommNetworkRate(nullptr, &rate), ncclInvalidArgument);
  });
}

TEST(Communicators, ACallMayChooseItsAlgorithms) {
  with_ranks(3, [](ncclComm_t comm, int rank) {
    std::vector<float> in(5000, static_cast<float>(rank + 1)), out(5000);
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    const auto plan_of = [&](const char* selection, int force) -> std::string {
      config.algSelection = selection;
      config.forceAlgSelection = force;
      if (ncclAllReduceConfig(in.data(), out.data(), in.size(), ncclFloat, ncclSum, comm, nullptr,
                              &config) != ncclSuccess)
        return ncclGetLastError(nullptr);
      EXPECT_EQ(out.front(), 6) << (selection != nullptr ? selection : "");
      EXPECT_EQ(out.back(), 6) << (selection != nullptr ? selection : "");
      char text[64] = "";
      EXPECT_OK(rondoGetLastPlan(comm, text, sizeof(text)));
      return text;
    };
    EXPECT_TRUE(plan_of("ring", 1).starts_with("ring")) << plan_of("ring", 1);
    EXPECT_TRUE(plan_of("allreduce:tree", 1).starts_with("tree"));
    EXPECT_TRUE(plan_of("^ring,tree,twoshot", 1).starts_with("oneshot"));
    EXPECT_NE(plan_of("direct", 1).find("leaves no algorithm that can run AllReduce"),
              std::string::npos);
    EXPECT_EQ(plan_of("direct", 0), plan_of(nullptr, 0));  // a request that nothing satisfies
    EXPECT_NE(plan_of("rign", 1).find("'rign' is not an algorithm"), std::string::npos);
  });
}

}  // namespace
