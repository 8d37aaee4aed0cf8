// SPDX-License-Identifier: Apache-2.0
// An idle communicator lends its GPU memory to others and takes it again with its next call: how
// much many communicators take, that all data is right, and what keeps its memory.
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

const Environment kLentRings{{"NCCL_ALGO", "ring"}, {"RONDO_GPU_STAGING", "8M"}};
const Environment kLentStaging{{"RONDO_GPU_STAGING", "8M"}};

struct LentPlace {
  const char* name;
  Layout layout;
};
void PrintTo(const LentPlace& place, std::ostream* out) { *out << place.name; }

const LentPlace kLentPlaces[] = {
    {"threads", {{{0, 1, 2}}, {}, kLentStaging}},
    {"processes", as_processes(3, Gpus::kOneEach, kLentStaging)},
    {"rings", as_processes(3, Gpus::kOneEach).under(kLentRings)},
    {"mixed", {{{0, 1}, {2}}, {}, kLentRings}},
    {"one_gpu", as_processes(3, Gpus::kOne, kLentStaging)},
};

class RecallOf : public testing::TestWithParam<LentPlace> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, RecallOf, testing::ValuesIn(kLentPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// Communicators of the same ranks. The first one is the seat's own.
class Family {
 public:
  Family(NcclRank& seat, std::size_t count) : seat_(seat), comms_{seat.comm} { grow(count); }
  void grow(std::size_t count) {
    while (comms_.size() < count) {
      comms_.push_back(nullptr);
      EXPECT_EQ(ncclCommSplit(seat_.comm, 0, seat_.rank, &comms_.back(), nullptr), ncclSuccess);
    }
  }
  ~Family() {
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    for (std::size_t i = 1; i < comms_.size(); ++i)
      EXPECT_EQ(ncclCommDestroy(comms_[i]), ncclSuccess);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  // body(seat), with communicator i as the seat's.
  template <class Body>
  void with(std::size_t i, const Body& body) {
    std::swap(seat_.comm, comms_[i]);
    body(seat_);
    std::swap(seat_.comm, comms_[i]);
  }
  // All ranks have finished, and their processes know it.
  void settle() const {
    GPU_OK(gpu_api()->synchronize_stream(seat_.stream));
    ASSERT_TRUE(seat_.board.meet());
  }
  std::uint64_t bytes(std::size_t i) const {
    std::uint64_t value = 0;
    ncclComm_t comm = i == 0 ? seat_.comm : comms_[i];
    EXPECT_EQ(ncclCommMemStats(comm, ncclStatGpuMemTotal, &value), ncclSuccess);
    return value;
  }
  std::uint64_t all_bytes() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < comms_.size(); ++i) sum += bytes(i);
    return sum;
  }

 private:
  NcclRank& seat_;
  std::vector<ncclComm_t> comms_;
};

std::uint64_t used_on_device() {
  std::size_t available = 0, total = 0;
  EXPECT_EQ(gpu_api()->memory_info(&available, &total), kGpuSuccess);
  return total - available;
}

void sum_of(NcclRank& seat, std::size_t count, unsigned seed) {
  run_case(seat,
           {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, count, seed},
           {});
}

// A ring, messages and an all-to-all, of sizes that use slots and staging.
void use_everything(NcclRank& seat, unsigned seed) {
  sum_of(seat, 3, seed);
  sum_of(seat, 1'000'000, seed);
  pass_round_a_ring(seat, {1, 30'000});
  run_case(seat,
           {Collective::kAllToAll, DataType::kFloat32, RedOp::kSum, seat.size, 0, 20'000, seed},
           {});
}

TEST_P(RecallOf, ManyCommunicatorsTakeLittleMoreThanOne) {
  if (GetParam().layout.devices() == 1) GTEST_SKIP() << "led calls: recalls are best effort";
  run_job(GetParam().layout, [](NcclRank& seat) {
    constexpr std::size_t kCommunicators = 6;
    Family family(seat, kCommunicators);
    std::uint64_t one = 0;
    for (unsigned i = 0; i < kCommunicators; ++i) {
      family.with(i, [&](NcclRank& own) { use_everything(own, 10 + i); });
      family.settle();
      if (i == 0) one = family.bytes(0);
    }
    EXPECT_LE(family.all_bytes(), one * 13 / 10);
    ASSERT_TRUE(seat.board.meet());
    // All of them work again, in any order.
    for (unsigned i = 0; i < kCommunicators; ++i)
      family.with((i * 5 + 2) % kCommunicators,
                  [&](NcclRank& own) { use_everything(own, 50 + i); });
    family.settle();
    for (unsigned i = 0; i < kCommunicators; ++i) EXPECT_LE(family.bytes(i), one + (4 << 20));
  });
}

// What programs ask for: 20 communicators on eight GPUs, each of which has run a ring, a message
// and an all-to-all, take at most 1.3 times what one takes; suspended, 2 MiB each.
TEST(Recall, TwentyCommunicatorsOfEightRanksTakeLittleMoreThanOne) {
  if (gpus_there() < 8) GTEST_SKIP() << "too few GPUs";
  const Layout eight{
      {{0, 1, 2, 3, 4, 5, 6, 7}}, {}, {{"NCCL_ALGO", "ring"}, {"NCCL_MAX_CTAS", "2"}}};
  run_job(eight, [](NcclRank& seat) {
    constexpr std::size_t kCommunicators = 20;
    Family family(seat, 1);
    std::uint64_t one = 0, used_by_one = 0;
    for (unsigned i = 0; i < kCommunicators; ++i) {
      family.with(i, [&](NcclRank& own) {
        sum_of(own, 3, i);
        sum_of(own, 100'000, i);
        pass_round_a_ring(own, {1000});
        run_case(own, {Collective::kAllToAll, DataType::kFloat32, RedOp::kSum, own.size, 0, 100, i},
                 {});
      });
      family.settle();
      if (i > 0) continue;
      one = family.bytes(0);
      used_by_one = used_on_device();
      ASSERT_TRUE(seat.board.meet());
      family.grow(kCommunicators);
    }
    EXPECT_LE(family.all_bytes(), one * 13 / 10);
    // The same by the driver's count, once buffers of the calls are freed.
    const auto is_little = [&] { return used_on_device() <= used_by_one + one * 3 / 10; };
    EXPECT_TRUE(wait_until(is_little))
        << used_on_device() << " bytes are used, after one communicator " << used_by_one;
    ASSERT_TRUE(seat.board.meet());
    for (std::size_t i = 0; i < kCommunicators; ++i)
      family.with(i, [&](NcclRank& own) { NCCL_OK(ncclCommSuspend(own.comm, NCCL_SUSPEND_MEM)); });
    ASSERT_TRUE(seat.board.meet());
    EXPECT_LE(family.all_bytes(), kCommunicators * (std::uint64_t{2} << 20));
  });
}

// Ranks are ahead of each other, so recalls meet calls that begin.
TEST_P(RecallOf, MeetsCallsThatBegin) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    constexpr std::size_t kCommunicators = 4;
    Family family(seat, kCommunicators);
    for (unsigned round = 0; round < 3; ++round)
      for (unsigned i = 0; i < kCommunicators; ++i) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds((seat.rank * 7 + round * 5 + i * 3) % 11 * 6));
        family.with(i, [&](NcclRank& own) {
          sum_of(own, round == 0 ? 400'000 : 3, round + i);
          pass_round_a_ring(own, {100});
        });
        family.with(0, [&](NcclRank& own) { sum_of(own, 3, i); });
      }
  });
}

// A message that was sent and not yet received keeps the memory in which it waits.
TEST_P(RecallOf, KeepsAMessageUnderWay) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    Family family(seat, 2);
    DeviceBuffer buffer(sizeof(int), 0);
    const int last = seat.size - 1;
    if (seat.rank == 0) {
      const int sent = 4711;
      Bytes content(sizeof(sent));
      std::memcpy(content.data(), &sent, sizeof(sent));
      buffer.put(content, 0, seat.stream);
      NCCL_OK(ncclSend(buffer.data(), 1, ncclInt32, last, seat.comm, seat.stream));
    }
    family.settle();
    family.with(1, [&](NcclRank& own) { use_everything(own, 10); });
    family.settle();
    if (seat.rank == last) {
      NCCL_OK(ncclRecv(buffer.data(), 1, ncclInt32, 0, seat.comm, seat.stream));
      buffer.get(seat.stream);
      int got = 0;
      std::memcpy(&got, buffer.host(), sizeof(got));
      EXPECT_EQ(got, 4711);
    }
    use_everything(seat, 30);
  });
}

// Suspended while its memory is lent, a communicator resumes as any other.
TEST_P(RecallOf, MayBeSuspendedMeanwhile) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    Family family(seat, 2);
    use_everything(seat, 10);
    family.settle();
    family.with(1, [&](NcclRank& own) { use_everything(own, 20); });
    family.settle();
    NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
    ASSERT_TRUE(seat.board.meet());
    EXPECT_LE(family.bytes(0), std::uint64_t{2} << 20);
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclCommResume(seat.comm));
    use_everything(seat, 30);
    family.with(1, [&](NcclRank& own) { use_everything(own, 40); });
  });
}

// A graph may be replayed at any time.
TEST(Recall, SparesCommunicatorsWithGraphs) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(2, Gpus::kOneEach).under(kLentRings), [](NcclRank& seat) {
    Family family(seat, 2);
    constexpr std::size_t kCount = 300'000;
    DeviceBuffer buffer(kCount * sizeof(std::int32_t), 0);
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt32, ncclSum, seat.comm,
                          seat.stream));
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    family.settle();
    const std::uint64_t before = family.bytes(0);
    family.with(1, [&](NcclRank& own) { use_everything(own, 20); });
    family.settle();
    EXPECT_EQ(family.bytes(0), before);
    Bytes content(kCount * sizeof(std::int32_t));
    for (std::size_t i = 0; i < kCount; ++i) content[i * sizeof(std::int32_t)] = std::byte{1};
    buffer.put(content, 0, seat.stream);
    GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
    buffer.get(seat.stream);
    std::int32_t got = 0;
    std::memcpy(&got, buffer.host() + content.size() - sizeof(got), sizeof(got));
    EXPECT_EQ(got, seat.size);
    GPU_OK(gpu_api()->destroy_graph(graph));
  });
}

// Two ranks exchange messages after the third, whose memory is lent, has left.
TEST(Recall, OutlivesARankThatLeaves) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(3, Gpus::kOneEach).under(kLentRings), [](NcclRank& seat) {
    Family family(seat, 2);
    use_everything(seat, 10);
    family.settle();
    family.with(1, [&](NcclRank& own) { use_everything(own, 20); });
    family.settle();
    if (seat.rank == 2) return;
    DeviceBuffer buffer(sizeof(int), 0);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    if (seat.rank == 0) {
      NCCL_OK(ncclSend(buffer.data(), 1, ncclInt32, 1, seat.comm, seat.stream));
    } else {
      NCCL_OK(ncclRecv(buffer.data(), 1, ncclInt32, 0, seat.comm, seat.stream));
    }
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
  });
}

// A rank dies while the communicator's memory is lent: the next calls of the others end with an
// error, although that rank's memory cannot come back.
TEST(Recall, EndsCallsAfterARankHasDied) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  RankProcesses ranks(as_processes(3, Gpus::kOneEach).under(kLentRings), [](NcclRank& seat) {
    ncclComm_t other = nullptr;
    NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &other, nullptr));
    for (const unsigned seed : {10, 20}) {
      use_everything(seat, seed);
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      ASSERT_TRUE(seat.board.meet());
      std::swap(seat.comm, other);
    }
    seat.mark(1);
    if (seat.rank == 2) sleep_until_killed();
    nap(1);
    DeviceBuffer buffer(sizeof(float), 0);
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) {
      result = ncclAllReduce(buffer.data(), buffer.data(), 1, ncclFloat32, ncclSum, seat.comm,
                             seat.stream);
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      if (result == ncclSuccess) {
        NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
      }
    }
    seat.report(Error{static_cast<StatusCode>(result), ncclGetLastError(seat.comm)});
    NCCL_OK(ncclCommAbort(seat.comm));
    NCCL_OK(ncclCommAbort(other));
    seat.comm = nullptr;
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(2, SIGKILL);
  ASSERT_TRUE(ranks.wait_reports({2}));
  for (const int r : {0, 1}) {
    EXPECT_NE(ranks.text(r).find("rank 2"), std::string::npos) << ranks.text(r);
  }
  ranks.wait_exits({2});
  ranks.check_expectations();
}

// An allocation that fails is tried again once idle communicators have given up their memory.
TEST(Recall, FindsRoomWhereMemoryIsShort) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(2, Gpus::kOneEach).under(kLentRings), [](NcclRank& seat) {
    if (std::string(gpu_api()->name) != "simt") return;  // it takes all memory of a GPU
    Family family(seat, 3);
    for (const std::size_t i : {0, 1, 0, 1}) {  // from then on both keep their memory
      family.with(i, [&](NcclRank& own) { use_everything(own, 10); });
      family.settle();
    }
    std::size_t available = 0, total = 0;
    GPU_OK(gpu_api()->memory_info(&available, &total));
    void* taken = nullptr;
    constexpr std::size_t kLeft = 20 << 20;  // buffers of a call, and less than its slots
    GPU_OK(gpu_api()->allocate(&taken, available - kLeft));
    ASSERT_TRUE(seat.board.meet());
    family.with(2, [&](NcclRank& own) { sum_of(own, 1'000'000, 30); });
    family.settle();
    GPU_OK(gpu_api()->free_memory(taken));
    for (const std::size_t i : {0, 1, 2})
      family.with(i, [&](NcclRank& own) { use_everything(own, 40); });
  });
}

}  // namespace
}  // namespace rondo::test
