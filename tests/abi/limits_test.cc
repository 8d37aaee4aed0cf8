// SPDX-License-Identifier: Apache-2.0
// Impossible arguments: counts larger than any memory, seconds that are not a number, ranks beyond
// the maximum. An error that names the argument refuses them before memory is accessed or
// allocated.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"

namespace {

constexpr std::size_t kMaxCount = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxInt = std::numeric_limits<int>::max();
const double kNan = std::nan("");

void expect_invalid(ncclResult_t result, const std::string& call, const std::string& part) {
  EXPECT_EQ(result, ncclInvalidArgument) << call;
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_EQ(text.find(call), 0u) << text;
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// All calls that take a count of elements. Every element is one byte, so `count` is also a number
// of bytes.
struct CountedCall {
  const char* name;
  std::function<ncclResult_t(void*, std::size_t, ncclComm_t, int peer)> call;
};
const std::vector<CountedCall> kCountedCalls = {
    {"AllReduce",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       return ncclAllReduce(at, at, count, ncclInt8, ncclSum, comm, nullptr);
     }},
    {"Broadcast", [](void* at, std::size_t count, ncclComm_t comm,
                     int) { return ncclBroadcast(at, at, count, ncclInt8, 0, comm, nullptr); }},
    {"Bcast", [](void* at, std::size_t count, ncclComm_t comm,
                 int) { return ncclBcast(at, count, ncclInt8, 0, comm, nullptr); }},
    {"Reduce", [](void* at, std::size_t count, ncclComm_t comm,
                  int) { return ncclReduce(at, at, count, ncclInt8, ncclSum, 0, comm, nullptr); }},
    {"AllGather", [](void* at, std::size_t count, ncclComm_t comm,
                     int) { return ncclAllGather(at, at, count, ncclInt8, comm, nullptr); }},
    {"ReduceScatter",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       return ncclReduceScatter(at, at, count, ncclInt8, ncclSum, comm, nullptr);
     }},
    {"AlltoAll", [](void* at, std::size_t count, ncclComm_t comm,
                    int) { return ncclAlltoAll(at, at, count, ncclInt8, comm, nullptr); }},
    {"Gather", [](void* at, std::size_t count, ncclComm_t comm,
                  int) { return ncclGather(at, at, count, ncclInt8, 0, comm, nullptr); }},
    {"Scatter", [](void* at, std::size_t count, ncclComm_t comm,
                   int) { return ncclScatter(at, at, count, ncclInt8, 0, comm, nullptr); }},
    {"Send", [](void* at, std::size_t count, ncclComm_t comm,
                int peer) { return ncclSend(at, count, ncclInt8, peer, comm, nullptr); }},
    {"Recv", [](void* at, std::size_t count, ncclComm_t comm,
                int peer) { return ncclRecv(at, count, ncclInt8, peer, comm, nullptr); }},
    {"Isend",
     [](void* at, std::size_t count, ncclComm_t comm, int peer) {
       rondoRequest_t request = nullptr;
       return rondoIsend(at, count, ncclInt8, peer, 1, comm, &request);
     }},
    {"Irecv",
     [](void* at, std::size_t count, ncclComm_t comm, int peer) {
       rondoRequest_t request = nullptr;
       return rondoIrecv(at, count, ncclInt8, peer, 1, comm, &request);
     }},
    {"AllToAllv",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       const std::size_t counts[2] = {count, count}, none[2] = {0, 0};
       return rondoAllToAllv(at, counts, none, at, counts, none, ncclInt8, comm, nullptr);
     }},
    {"AllGatherv",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       const std::size_t counts[2] = {count, count}, none[2] = {0, 0};
       return rondoAllGatherv(at, count, at, counts, none, ncclInt8, comm, nullptr);
     }},
    {"ReduceScatterv",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       const std::size_t counts[2] = {count, 0};
       return rondoReduceScatterv(at, at, counts, ncclInt8, ncclSum, comm, nullptr);
     }},
    {"Gatherv",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       const std::size_t counts[2] = {count, count}, none[2] = {0, 0};
       return rondoGatherv(at, count, at, counts, none, ncclInt8, 0, comm, nullptr);
     }},
    {"Scatterv",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       const std::size_t counts[2] = {count, count}, none[2] = {0, 0};
       return rondoScatterv(at, counts, none, at, count, ncclInt8, 0, comm, nullptr);
     }},
    {"CommRegister",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       void* handle = nullptr;
       return ncclCommRegister(comm, at, count, &handle);
     }},
    {"CommWindowRegister",
     [](void* at, std::size_t count, ncclComm_t comm, int) {
       ncclWindow_t window = nullptr;
       return ncclCommWindowRegister(comm, at, count, &window, NCCL_WIN_DEFAULT);
     }},
    {"MemAlloc",
     [](void*, std::size_t count, ncclComm_t, int) {
       void* memory = nullptr;
       return ncclMemAlloc(&memory, count);
     }},
    {"MemAllocHost",
     [](void*, std::size_t count, ncclComm_t, int) {
       void* memory = nullptr;
       return rondoMemAllocHost(&memory, count);
     }},
};

TEST(Limits, CountsThatNoBufferHoldsAreRefused) {
  rondo::test::with_ranks(2, [](ncclComm_t comm, int rank) {
    OK(rondoCommOpenMessages(comm));
    std::vector<char> memory(4096);
    for (const CountedCall& each : kCountedCalls)
      for (const std::size_t count : {kMaxCount, kMaxCount + 1, SIZE_MAX, kMaxCount / 2}) {
        const ncclResult_t result = each.call(memory.data(), count, comm, 1 - rank);
        const std::string name =
            std::string(each.name) == "Bcast" ? "Broadcast" : std::string(each.name);
        expect_invalid(result, name, std::to_string(count));
        expect_invalid(result, name, "larger than any buffer");
      }
    int one = 1;  // and the communicator still works
    OK(ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_EQ(one, 2);
  });
}

TEST(Limits, CountsAreMultipliedByTypeAndRanksWithoutOverflow) {
  rondo::test::with_ranks(2, [](ncclComm_t comm, int) {
    std::vector<double> memory(4);
    void* const at = memory.data();
    const std::size_t wraps = SIZE_MAX / 16 + 2;  // times 8 bytes, times 2 ranks: 16 bytes
    expect_invalid(ncclAllGather(at, at, wraps, ncclFloat64, comm, nullptr), "AllGather",
                   std::to_string(wraps) + " of float64 times 2 ranks");
    expect_invalid(ncclAllReduce(at, at, SIZE_MAX / 8 + 2, ncclFloat64, ncclSum, comm, nullptr),
                   "AllReduce", "larger than any buffer");
    const std::size_t counts[2] = {1, 1}, displacements[2] = {0, SIZE_MAX};
    expect_invalid(rondoAllGatherv(at, 1, at, counts, displacements, ncclFloat64, comm, nullptr),
                   "AllGatherv", "displs[1] = 18446744073709551615");
  });
}

TEST(Limits, SecondsThatAreNoNumberAreRefusedInsteadOfWaitedFor) {
  rondoStream_t stream = nullptr;
  rondoRequest_t request = nullptr;
  OK(rondoStreamCreate(&stream));
  OK(rondoStreamRecord(stream, &request));
  expect_invalid(rondoRequestWait(request, kNan), "RequestWait : seconds is nan", "give a number");
  expect_invalid(rondoRequestRun(request, kNan), "RequestRun : seconds is nan", "give a number");
  expect_invalid(rondoRequestCancel(request, kNan), "RequestCancel : waitedSeconds is nan",
                 "give a number");
  OK(rondoRequestWait(request, std::numeric_limits<double>::infinity()));
  OK(rondoRequestFree(request));
  OK(rondoStreamDestroy(stream));

  rondoCompletions_t completions = nullptr;
  std::uint64_t token = 0;
  OK(rondoCompletionsCreate(&completions));
  expect_invalid(rondoCompletionsNext(completions, kNan, &token),
                 "CompletionsNext : seconds is nan", "0 to return at once");
  for (const double past : {0.0, -1.0, -std::numeric_limits<double>::infinity()})
    EXPECT_EQ(rondoCompletionsNext(completions, past, &token), ncclInProgress) << past;
  OK(rondoCompletionsDestroy(completions));

  rondoLaunch_t launch = nullptr;
  expect_invalid(rondoLaunchMeet(&launch, 0, 1, 1, 1, kNan), "LaunchMeet : seconds is nan",
                 "above 0");
  rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
  options.timeout = kNan;
  ncclComm_t comm = nullptr;
  expect_invalid(rondoCommInitRankOptions(&comm, 1, ncclUniqueId{}, 0, nullptr, &options),
                 "rondoCommOptions_t : timeout is nan", "above 0");
}

TEST(Limits, SecondsOfACommunicatorToo) {
  rondo::test::with_ranks(1, [](ncclComm_t comm, int) {
    OK(rondoCommOpenMessages(comm));
    expect_invalid(rondoCommFlushMessages(comm, kNan), "CommFlushMessages : seconds is nan",
                   "give a number");
    expect_invalid(rondoCommSetTimeout(comm, kNan), "CommSetTimeout : seconds is nan", "above 0");
    expect_invalid(rondoCommSetTimeout(comm, 0), "CommSetTimeout : seconds is 0", "above 0");
    OK(rondoCommSetTimeout(comm, std::numeric_limits<double>::infinity()));
    std::vector<ncclWaitSignalDesc_t> few(1);
    expect_invalid(ncclWaitSignal(kMaxInt, few.data(), comm, nullptr), "WaitSignal",
                   "nDesc 2147483647 is more than");
  });
}

TEST(Limits, RanksBeyondWhatThereCanBeAreRefusedBeforeAnythingIsMade) {
  ncclComm_t comm = nullptr;
  expect_invalid(ncclCommInitAll(&comm, kMaxInt, nullptr),
                 "Invalid device count requested : 2147483647", "a process has at most 16384");
  const int device = 0;  // the list is not read
  expect_invalid(ncclCommInitAll(&comm, kMaxInt, &device),
                 "Invalid device count requested : 2147483647", "ncclCommInitRank");
  const std::string too_many = "Invalid number of ranks requested : 2147483647";
  ncclUniqueId id{};
  expect_invalid(ncclCommInitRank(&comm, kMaxInt, id, 0), too_many, "at most 1048576");
  expect_invalid(ncclCommInitRankScalable(&comm, kMaxInt, 0, kMaxInt, &id, nullptr), too_many,
                 "at most 1048576");
  expect_invalid(ncclCommGrow(nullptr, kMaxInt, &id, 0, &comm, nullptr), too_many,
                 "at most 1048576");
  EXPECT_EQ(comm, nullptr);
}

TEST(Limits, AnExchangeOfALaunchIsNoLongerThanItsLimit) {
  rondoLaunch_t launch = nullptr;
  OK(rondoLaunchMeet(&launch, 0, 1, 1, 1, 60));
  const char mine = 0;
  const void* all = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(rondoLaunchExchange(launch, &mine, kMaxCount, &all, &size, 60), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("gave 9223372036854775807 bytes"),
            std::string::npos)
      << ncclGetLastError(nullptr);
  OK(rondoLaunchLeave(launch));
}

}  // namespace
