// SPDX-License-Identifier: Apache-2.0
// Slots of messages between processes with GPUs: they are the receiver's, made on demand (by NVLink
// between hosts: at init), and no third rank takes part.
#include <signal.h>

#include "kernels/cuda/message_args.h"
#include "tests/gpu/cliques.h"
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

constexpr std::uint64_t kStaging = 1 << 20;  // per rank, for messages from all others

struct Place {
  const char* name;
  Gpus gpus;
  Environment environment;
  bool on_hosts = false;  // two, in turn
  bool joined = false;    // by NVLink
  bool on_host = false;   // slots
};

class MessageSlotsOf : public testing::TestWithParam<Place> {
 protected:
  static Layout layout(int ranks) {
    Layout made = as_processes(ranks, GetParam().gpus, GetParam().environment)
                      .under({{"RONDO_GPU_STAGING", std::to_string(kStaging)}});
    for (int r = 0; r < ranks && GetParam().on_hosts; ++r)
      made.hosts.emplace_back(r % 2 == 0 ? "a" : "b");
    const std::vector<int> cliques(static_cast<std::size_t>(ranks), 1);
    return GetParam().joined ? in_cliques(made, cliques) : made;
  }
  void SetUp() override {
    if (GetParam().gpus == Gpus::kOneEach && gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(
    Places, MessageSlotsOf,
    testing::Values(
        Place{"one_gpu", Gpus::kOne, {}}, Place{"gpus_of_their_own", Gpus::kOneEach, {}},
        Place{"gpus_apart", Gpus::kOneEach, {{"NCCL_P2P_DISABLE", "1"}}, false, false, true},
        Place{"hosts", Gpus::kOneEach, {}, true},
        Place{"joined_hosts", Gpus::kOneEach, {}, true, true}),
    [](const auto& info) { return std::string(info.param.name); });

constexpr std::size_t kSlotBytes = 1000;

void send_to(NcclRank& seat, int peer) {
  DeviceBuffer buffer(kSlotBytes, 0);
  buffer.put(Bytes(kSlotBytes, static_cast<std::byte>(seat.rank + 1)), 0, seat.stream);
  NCCL_OK(ncclSend(buffer.data(), kSlotBytes, ncclUint8, peer, seat.comm, seat.stream));
  GPU_OK(gpu_api()->synchronize_stream(seat.stream));
}

void receive_from(NcclRank& seat, int peer) {
  DeviceBuffer buffer(kSlotBytes, 0);
  buffer.put({}, 0, seat.stream);
  NCCL_OK(ncclRecv(buffer.data(), kSlotBytes, ncclUint8, peer, seat.comm, seat.stream));
  buffer.get(seat.stream);
  ASSERT_TRUE(buffer.guards_intact());
  const Bytes want(kSlotBytes, static_cast<std::byte>(peer + 1));
  ASSERT_EQ(std::memcmp(buffer.host(), want.data(), kSlotBytes), 0);
}

// On the receiver's GPU; without P2P they are on its host, from init on. The record of calls is
// off, because its memory counts from the first call on.
TEST_P(MessageSlotsOf, AreTheReceiversAlone) {
  const bool at_first_message = !GetParam().on_host;
  run_job(layout(4).under({{"RONDO_RECORD", "0"}}), [=](NcclRank& seat) {
    std::size_t before = 0, after = 0;
    NCCL_OK(rondoCommMemoryUsed(seat.comm, &before));
    if (seat.rank == 3) seat.board.flag = 1;  // the sender's request makes them
    if (seat.rank == 1) {
      ASSERT_TRUE(seat.wait_flag(1));
      send_to(seat, 3);
    }
    if (seat.rank == 3) receive_from(seat, 1);
    NCCL_OK(rondoCommMemoryUsed(seat.comm, &after));
    if (seat.rank == 3 && at_first_message) {
      EXPECT_GE(after - before, kStaging / 4);  // in whole pages of a device
    } else {
      EXPECT_EQ(after, before) << seat.rank;
    }
  });
}

// Sends do not wait for receivers, and all ranks request slots from each other at once.
TEST_P(MessageSlotsOf, AreAskedForCrosswise) {
  run_job(layout(4), [](NcclRank& seat) {
    for (int step = 1; step < 4; ++step) {
      send_to(seat, (seat.rank + step) % 4);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (int step = 1; step < 4; ++step) {
      receive_from(seat, (seat.rank + step) % 4);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

#ifdef RONDO_SIMT
// Drivers may let cudaHostRegister wait for all streams. Rank 1's stream waits for rank 2, which
// sends after rank 0, whose first message to rank 1 must not wait for that stream.
TEST(MessageSlotsOnHost, NeedNoStreamToEnd) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  const Environment apart{{"NCCL_P2P_DISABLE", "1"}, {"RONDO_SIMT", "registers=wait"}};
  run_job(as_processes(3, Gpus::kOneEach, apart), [](NcclRank& seat) {
    DeviceBuffer buffer(kSlotBytes, 0);
    if (seat.rank == 1) {
      NCCL_OK(ncclRecv(buffer.data(), kSlotBytes, ncclUint8, 2, seat.comm, seat.stream));
      seat.board.flag = 1;
      NCCL_OK(ncclRecv(buffer.data(), kSlotBytes, ncclUint8, 0, seat.comm, seat.stream));
    } else {
      ASSERT_TRUE(seat.wait_flag(seat.rank == 0 ? 1 : 2));
      NCCL_OK(ncclSend(buffer.data(), kSlotBytes, ncclUint8, 1, seat.comm, seat.stream));
      if (seat.rank == 0) seat.board.flag = 2;
    }
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  });
}
#endif

// A message survives its sender.
TEST_P(MessageSlotsOf, NeedNoThirdRank) {
  RankProcesses ranks(layout(3), [](NcclRank& seat) {
    seat.mark(1);
    if (seat.rank == 0) {
      NCCL_OK(ncclCommDestroy(seat.comm));
      seat.comm = nullptr;
      seat.board.flag = 1;
      return;
    }
    ASSERT_TRUE(seat.wait_flag(1));
    if (seat.rank == 1) send_to(seat, 2);
    if (seat.rank == 2) receive_from(seat, 1);
  });
  ranks.wait_exits();
  ranks.check_expectations();
}

// By NVLink between hosts, once a message waits because the slots are full.
TEST_P(MessageSlotsOf, TheRankThatDiedBeforeTheFirstIsNamed) {
  RankProcesses ranks(layout(2), [](NcclRank& seat) {
    seat.mark(1);
    ASSERT_TRUE(seat.wait_flag(1));  // rank 1 is dead by then
    DeviceBuffer buffer(kSlotBytes, 0);
    ncclResult_t result = ncclSuccess;
    for (int slot = 0; result == ncclSuccess && slot <= cuda::kMessageChannelSlots; ++slot)
      result =
          ncclSend(buffer.data(), kSlotBytes, ncclUint8, 1 - seat.rank, seat.comm, seat.stream);
    while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(1, SIGKILL);
  nap(0.1);
  ranks.board().flag = 1;
  ranks.wait_exits({1});
  ranks.check_expectations();
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("rank 1 (pid"), std::string::npos) << ranks.text(0);
}

}  // namespace
}  // namespace rondo::test
