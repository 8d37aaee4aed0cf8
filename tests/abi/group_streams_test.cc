// SPDX-License-Identifier: Apache-2.0
// Groups whose calls name several streams of rondoStreamCreate(): the group is ordered in each of
// these streams, whichever stream executes it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"

namespace {

// Time in which a job that must not run yet would run if the order were wrong.
constexpr std::chrono::milliseconds kChance{100};
constexpr int kNothing = -1;

// A rank's thread uses this to wait for the other rank's.
void await(const std::atomic<bool>& flag) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!flag && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
}

enum class Way { kMessages, kPuts };

struct Setting {
  Way way;
  bool sends_first;  // the group's first call, which decides its first stream, is the send
};

// A rank's two communicators and two streams, and the words that its peer sends or puts.
struct Rank {
  Rank(ncclComm_t comm, int rank) : comm(comm), rank(rank), peer(1 - rank) { make(); }
  ~Rank() { destroy(); }
  void make() {
    OK(ncclCommSplit(comm, 0, rank, &other, nullptr));
    OK(ncclMemAlloc(reinterpret_cast<void**>(&got), sizeof(int)));
    *got = kNothing;  // before the peer can put
    OK(ncclCommWindowRegister(comm, got, sizeof(int), &window, NCCL_WIN_DEFAULT));
    OK(rondoStreamCreate(&sending));
    OK(rondoStreamCreate(&receiving));
  }
  void destroy() {
    OK(rondoStreamDestroy(sending));
    OK(rondoStreamDestroy(receiving));
    OK(ncclCommWindowDeregister(comm, window));
    OK(ncclMemFree(got));
    OK(ncclCommDestroy(other));
  }

  void send(Way way) {
    const cudaStream_t stream = rondoStreamHandle(sending);
    if (way == Way::kMessages)
      OK(ncclSend(&value, 1, ncclInt, peer, comm, stream));
    else
      OK(ncclPutSignal(&value, 1, ncclInt, peer, window, 0, 0, 0, 0, comm, stream));
  }
  void receive(Way way) {
    const cudaStream_t stream = rondoStreamHandle(receiving);
    ncclWaitSignalDesc_t wanted{1, peer, 0, 0};
    if (way == Way::kMessages)
      OK(ncclRecv(got, 1, ncclInt, peer, comm, stream));
    else
      OK(ncclWaitSignal(1, &wanted, comm, stream));
  }
  // Sends on one stream and receives on the other.
  void exchange(const Setting& setting) {
    OK(ncclGroupStart());
    if (setting.sends_first) send(setting.way);
    receive(setting.way);
    if (!setting.sends_first) send(setting.way);
    OK(ncclGroupEnd());
  }
  void finish() {
    OK(rondoStreamSynchronize(sending));
    OK(rondoStreamSynchronize(receiving));
  }

  ncclComm_t comm, other = nullptr;
  int rank, peer;
  ncclWindow_t window = nullptr;
  int* got = nullptr;
  int value = kNothing;
  rondoStream_t sending = nullptr, receiving = nullptr;
};

class GroupOnStreams : public testing::TestWithParam<Setting> {};

// The values of ranks 0 and 1 are 10 and 20. After its group, each stream of rank 0 sums the
// received values on a communicator whose calls do not wait for the group's. Rank 1 calls the sum
// at once, and enters the group last.
TEST_P(GroupOnStreams, LetsTheLaterWorkOfEachStreamSeeItsEffect) {
  std::atomic<bool> queued{false};
  rondo::test::with_ranks(2, [&](ncclComm_t comm, int number) {
    Rank me(comm, number);
    me.value = 10 * (number + 1);
    int sums[2] = {};
    if (number == 0) {
      me.exchange(GetParam());
      const rondoStream_t streams[] = {me.sending, me.receiving};
      for (const int i : {0, 1})
        OK(ncclAllReduce(me.got, &sums[i], 1, ncclInt, ncclSum, me.other,
                         rondoStreamHandle(streams[i])));
      EXPECT_EQ(rondoStreamQuery(me.sending), ncclInProgress);
      EXPECT_EQ(rondoStreamQuery(me.receiving), ncclInProgress);
      queued = true;
      me.finish();
      EXPECT_EQ(*me.got, 20);
    } else {
      const int own = 5;
      rondoStream_t beside = nullptr;
      OK(rondoStreamCreate(&beside));
      for (int& sum : sums)
        OK(ncclAllReduce(&own, &sum, 1, ncclInt, ncclSum, me.other, rondoStreamHandle(beside)));
      await(queued);
      std::this_thread::sleep_for(kChance);
      me.exchange(GetParam());
      me.finish();
      OK(rondoStreamSynchronize(beside));
      OK(rondoStreamDestroy(beside));
      EXPECT_EQ(*me.got, 10);
    }
    EXPECT_EQ(sums[0], 25);
    EXPECT_EQ(sums[1], 25);
  });
}

// A sum produces the value that rank 0 sends, on the stream that `makes_on_sending` selects. Rank 1
// enters that sum last, after its own side of the group.
void make_then_exchange(const Setting& setting, bool makes_on_sending) {
  std::atomic<bool> queued{false};
  rondo::test::with_ranks(2, [&](ncclComm_t comm, int number) {
    Rank me(comm, number);
    const int part = number + 3;
    if (number == 0) {
      OK(ncclAllReduce(&part, &me.value, 1, ncclInt, ncclSum, me.other,
                       rondoStreamHandle(makes_on_sending ? me.sending : me.receiving)));
      me.exchange(setting);
      EXPECT_EQ(rondoStreamQuery(me.sending), ncclInProgress);
      EXPECT_EQ(rondoStreamQuery(me.receiving), ncclInProgress);
      queued = true;
      me.finish();
      EXPECT_EQ(*me.got, 20);
    } else {
      int sum = 0;
      me.value = 20;
      me.exchange(setting);
      await(queued);
      std::this_thread::sleep_for(kChance);
      OK(ncclAllReduce(&part, &sum, 1, ncclInt, ncclSum, me.other, nullptr));
      me.finish();
      EXPECT_EQ(*me.got, 7);
    }
  });
}

TEST_P(GroupOnStreams, WaitsForTheEarlierWorkOfEachStream) {
  make_then_exchange(GetParam(), true);
  make_then_exchange(GetParam(), false);
}

// A thread that waits for only one of the streams must also get the error.
TEST_P(GroupOnStreams, ReportsItsErrorToEachStream) {
  std::atomic<bool> ready{false}, reported{false};
  rondo::test::with_ranks(2, [&](ncclComm_t comm, int number) {
    Rank me(comm, number);
    if (number == 1) {
      await(ready);  // the calls of rank 0 are on its streams
      OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
      return await(reported);
    }
    me.exchange(GetParam());
    ready = true;
    rondoRequest_t recorded[2] = {};
    OK(rondoStreamRecord(me.sending, &recorded[0]));
    OK(rondoStreamRecord(me.receiving, &recorded[1]));
    for (rondoRequest_t request : recorded) {
      EXPECT_EQ(rondoRequestWait(request, 300), ncclRemoteError);
      const std::string text = ncclGetLastError(nullptr);
      EXPECT_NE(text.find("rank 1 revoked"), std::string::npos) << text;
      OK(rondoRequestFree(request));
    }
    EXPECT_EQ(rondoStreamSynchronize(me.sending), ncclRemoteError);
    EXPECT_EQ(rondoStreamSynchronize(me.receiving), ncclRemoteError);
    reported = true;
  });
}

INSTANTIATE_TEST_SUITE_P(Of, GroupOnStreams,
                         testing::Values(Setting{Way::kMessages, true},
                                         Setting{Way::kMessages, false}, Setting{Way::kPuts, true},
                                         Setting{Way::kPuts, false}),
                         [](const auto& info) {
                           const std::string what =
                               info.param.way == Way::kMessages ? "Messages" : "Puts";
                           return what + (info.param.sends_first ? "SendFirst" : "ReceiveFirst");
                         });

}  // namespace
