// SPDX-License-Identifier: Apache-2.0
// Requests, completion queues and tagged messages through the C API; ranks are threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"

namespace {

constexpr double kLong = 300;  // seconds: a deadline that is never reached
constexpr std::size_t kBeyondEager = (4u << 20) + 12345;

// Like with_ranks(), with communicators that accept tagged messages.
void with_messages(int ranks, const std::function<void(ncclComm_t, int)>& body) {
  rondo::test::with_ranks(ranks, [&](ncclComm_t comm, int rank) {
    OK(rondoCommOpenMessages(comm));
    body(comm, rank);
  });
}

void wait_and_free(rondoRequest_t request) {
  OK(rondoRequestWait(request, kLong));
  OK(rondoRequestFree(request));
}

TEST(Messages, TagsMatchInAnyOrderAndEveryLengthArrives) {
  with_messages(2, [](ncclComm_t comm, int rank) {
    const std::vector<std::size_t> sizes = {0, 1, 4096, 1 << 20, kBeyondEager};
    std::vector<std::vector<std::uint8_t>> buffers;
    std::vector<rondoRequest_t> requests;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      const std::size_t tag = rank == 0 ? k : sizes.size() - 1 - k;
      buffers.emplace_back(sizes[tag], rank == 0 ? static_cast<std::uint8_t>(tag + 1) : 0);
      rondoRequest_t request = nullptr;
      if (rank == 0)
        OK(rondoIsend(buffers[k].data(), sizes[tag], ncclUint8, 1, static_cast<int>(tag), comm,
                      &request));
      else
        OK(rondoIrecv(buffers[k].data(), sizes[tag], ncclUint8, 0, static_cast<int>(tag), comm,
                      &request));
      requests.push_back(request);
    }
    for (rondoRequest_t request : requests) wait_and_free(request);
    for (std::size_t k = 0; rank == 1 && k < sizes.size(); ++k)
      for (std::uint8_t byte : buffers[k]) ASSERT_EQ(byte, sizes.size() - k);
  });
}

// Errors count the program's calls only.
TEST(Messages, AreOpenedWithoutACallOfTheCommunicator) {
  with_messages(2, [](ncclComm_t comm, int rank) {
    float one = 1;
    const ncclResult_t result =
        rank == 0 ? ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, comm, nullptr)
                  : ncclBroadcast(&one, &one, 1, ncclFloat32, 0, comm, nullptr);
    EXPECT_EQ(result, ncclInvalidUsage);
    const std::string text = ncclGetLastError(comm);
    EXPECT_NE(text.find("in call 1, rank"), std::string::npos) << text;
  });
}

// A message without a receive is stored at the receiver, and counts as its memory: the host's.
TEST(Messages, ThatWaitForTheirReceiveAreCountedAsMemory) {
  with_messages(2, [](ncclComm_t comm, int rank) {
    std::vector<std::uint8_t> data(1 << 20, 7);
    rondoRequest_t request = nullptr;
    if (rank == 0) {
      for (const std::size_t bytes : {std::size_t{1}, data.size()}) {
        OK(rondoIsend(data.data(), bytes, ncclUint8, 1, bytes == 1 ? 4 : 5, comm, &request));
        wait_and_free(request);
      }
      return;
    }
    OK(rondoIrecv(data.data(), 1, ncclUint8, 0, 4, comm, &request));  // from now on it accepts
                                                                      // messages
    wait_and_free(request);
    const auto used = [&] {
      std::size_t bytes = 0;
      uint64_t on_gpu = 1;
      EXPECT_EQ(rondoCommMemoryUsed(comm, &bytes), ncclSuccess);
      EXPECT_EQ(ncclCommMemStats(comm, ncclStatGpuMemTotal, &on_gpu), ncclSuccess);
      EXPECT_EQ(on_gpu, 0u);
      return bytes;
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kLong);
    while (used() < data.size() && std::chrono::steady_clock::now() < deadline) usleep(1000);
    const std::size_t with_message = used();
    EXPECT_GE(with_message, data.size());
    OK(rondoIrecv(data.data(), data.size(), ncclUint8, 0, 5, comm, &request));
    wait_and_free(request);
    EXPECT_LE(used() + data.size(), with_message);
  });
}

TEST(Messages, AReceiveFromAnySourceReportsTheSource) {
  with_messages(3, [](ncclComm_t comm, int rank) {
    int value = rank;
    rondoRequest_t request = nullptr;
    if (rank != 0) {
      OK(rondoIsend(&value, 1, ncclInt32, 0, 7, comm, &request));
      wait_and_free(request);
      return;
    }
    std::set<int> sources;
    for (int k = 0; k < 2; ++k) {
      int source = -1;
      OK(rondoIrecv(&value, 1, ncclInt32, RONDO_ANY_SOURCE, 7, comm, &request));
      OK(rondoRequestWait(request, kLong));
      OK(rondoRequestSource(request, &source));
      OK(rondoRequestFree(request));
      EXPECT_EQ(source, value);
      sources.insert(source);
    }
    EXPECT_EQ(sources, (std::set<int>{1, 2}));
  });
}

TEST(Messages, ACancelledReceiveNamesWhatItWaitedForAndFreesItsPlace) {
  with_messages(2, [](ncclComm_t comm, int rank) {
    int value = 5;
    rondoRequest_t request = nullptr, other = nullptr;
    if (rank == 0) {
      OK(rondoIrecv(&value, 1, ncclInt32, 1, 3, comm, &request));
      EXPECT_EQ(rondoRequestTest(request), ncclInProgress);
      OK(rondoRequestCancel(request, 1.5));
      EXPECT_EQ(rondoRequestTest(request), ncclTimeout);
      EXPECT_NE(std::string(ncclGetLastError(nullptr))
                    .find("waited 1.5 s to receive 4 bytes with "
                          "tag 3 from rank 1"),
                std::string::npos);
      OK(rondoRequestFree(request));
    }
    OK(rondoBarrier(comm, nullptr));
    int theirs = 0;
    OK(rondoIsend(&rank, 1, ncclInt32, 1 - rank, 3, comm, &request));
    OK(rondoIrecv(&theirs, 1, ncclInt32, 1 - rank, 3, comm, &other));
    wait_and_free(request);
    wait_and_free(other);
    EXPECT_EQ(theirs, 1 - rank);
    EXPECT_EQ(value, 5);
  });
}

TEST(Messages, APeerThatLeftFailsWhatNeedsIt) {
  with_messages(2, [](ncclComm_t comm, int rank) {
    if (rank == 1) return;  // destroys its communicator
    int value = 0;
    rondoRequest_t request = nullptr;
    ASSERT_EQ(rondoIrecv(&value, 1, ncclInt32, 1, 0, comm, &request), ncclSuccess);
    EXPECT_EQ(rondoRequestWait(request, kLong), ncclRemoteError);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("has ended"), std::string::npos);
    OK(rondoRequestFree(request));
  });
}

TEST(Messages, ArgumentsAreChecked) {
  with_messages(1, [](ncclComm_t comm, int) {
    int value = 0;
    rondoRequest_t request = nullptr;
    EXPECT_EQ(rondoIsend(&value, 1, ncclInt32, 1, 0, comm, &request), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "peer 1 is not in 0..0");
    EXPECT_EQ(rondoIsend(nullptr, 1, ncclInt32, 0, 0, comm, &request), ncclInvalidArgument);
    EXPECT_EQ(rondoRequestTest(nullptr), ncclInvalidArgument);
    OK(rondoIsend(&value, 1, ncclInt32, 0, 0, comm, &request));
    wait_and_free(request);
    EXPECT_EQ(rondoRequestFree(request), ncclInvalidArgument);
  });
}

TEST(Requests, ARecordIsDoneWithTheCallsBeforeItAndItsTokenArrivesOnce) {
  rondoStream_t stream = nullptr;
  rondoCompletions_t queue = nullptr;
  OK(rondoStreamCreate(&stream));
  OK(rondoCompletionsCreate(&queue));
  with_messages(1, [&](ncclComm_t comm, int) {
    float in = 3, out = 0;
    rondoRequest_t request = nullptr;
    OK(ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, rondoStreamHandle(stream)));
    OK(rondoStreamRecord(stream, &request));
    OK(rondoCompletionsWatch(queue, request, 42));
    std::uint64_t token = 0;
    OK(rondoCompletionsNext(queue, kLong, &token));
    EXPECT_EQ(token, 42u);
    EXPECT_EQ(out, 3);
    OK(rondoRequestTest(request));
    EXPECT_EQ(rondoCompletionsNext(queue, 0, &token), ncclInProgress);
    EXPECT_EQ(rondoRequestCancel(request, 1), ncclSuccess);  // finished, so it cannot be cancelled
    OK(rondoRequestFree(request));
  });
  OK(rondoCompletionsDestroy(queue));
  OK(rondoStreamDestroy(stream));
}

TEST(Requests, AThreadThatRunsThemGetsEveryResultInOrder) {
  constexpr int kRounds = 500;
  with_messages(2, [](ncclComm_t comm, int rank) {
    rondoStream_t stream = nullptr;
    OK(rondoStreamCreate(&stream));
    for (int round = 0; round < kRounds; ++round) {
      float first = static_cast<float>(rank), second = 0;
      rondoRequest_t request = nullptr;
      OK(ncclAllReduce(&first, &first, 1, ncclFloat, ncclSum, comm, rondoStreamHandle(stream)));
      OK(ncclAllReduce(&first, &second, 1, ncclFloat, ncclSum, comm, rondoStreamHandle(stream)));
      OK(rondoStreamRecord(stream, &request));
      if (round % 3 == rank) usleep(200);  // sometimes the stream's own thread is first
      OK(rondoRequestRun(request, kLong));
      OK(rondoRequestTest(request));
      OK(rondoRequestRun(request, 0));
      OK(rondoRequestFree(request));
      ASSERT_EQ(first, 1);
      ASSERT_EQ(second, 2);
    }
    OK(rondoStreamDestroy(stream));
  });
}

TEST(Requests, OfMessagesCanBeRunToo) {
  with_messages(2, [](ncclComm_t comm, int rank) {
    int value = rank;
    rondoRequest_t request = nullptr;
    if (rank == 0) {
      OK(rondoIrecv(&value, 1, ncclInt32, 1, 3, comm, &request));
      EXPECT_EQ(rondoRequestRun(request, 0), ncclInProgress);
      OK(rondoBarrier(comm, nullptr));
    } else {
      OK(rondoBarrier(comm, nullptr));
      OK(rondoIsend(&value, 1, ncclInt32, 0, 3, comm, &request));
    }
    OK(rondoRequestRun(request, kLong));
    OK(rondoRequestFree(request));
    EXPECT_EQ(value, 1);
  });
}

}  // namespace
