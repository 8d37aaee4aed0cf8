// SPDX-License-Identifier: Apache-2.0
// CTA policy ZERO on GPUs of several processes: copies by copy engines in symmetric windows.
#include "tests/gpu/half_windows.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

// The process's launches since begin(), which the emulated GPU reports: a call's two meetings have
// one CTA each.
class Meetings {
 public:
  void begin() {
#ifdef RONDO_SIMT
    simt::launch_counts().largest_grid = 0;
    before_ = simt::launch_counts().launches;
#endif
  }
  void expect(std::uint64_t number) const {
#ifdef RONDO_SIMT
    EXPECT_EQ(simt::launch_counts().launches - before_, number);
    EXPECT_EQ(simt::launch_counts().largest_grid, 1u);
#endif
    (void)number;
  }

 private:
  [[maybe_unused]] std::uint64_t before_ = 0;
};

// All calls write to the second half; out of place they read the first one.
class EngineCalls {
 public:
  EngineCalls(NcclRank& seat, std::size_t block) : seat_(seat), block_(block), all_(seat, block) {}

  void all_gather(bool in_place, int round) {
    all_.fill(round);
    std::byte* const send = in_place ? all_.second(seat_.rank) : all_.first();
    NCCL_OK(ncclAllGather(send, all_.second(), block_, ncclInt8, seat_.comm, seat_.stream));
    expect_blocks(in_place, round);
  }
  void gather(bool in_place, int root, int round) {
    all_.fill(round);
    std::byte* const send = in_place ? all_.second(seat_.rank) : all_.first();
    // Out of place only the root has a recvbuff, which may be anywhere.
    DeviceBuffer apart(block_ * seat_.size, 0);
    std::byte* const receive = in_place             ? all_.second()
                               : seat_.rank == root ? apart.data()
                                                    : nullptr;
    NCCL_OK(ncclGather(send, receive, block_, ncclInt8, root, seat_.comm, seat_.stream));
    if (seat_.rank == root && !in_place)
      GPU_OK(gpu_api()->copy(all_.second(), apart.data(), block_ * seat_.size, GpuCopy::kAny,
                             seat_.stream));
    if (seat_.rank == root) return expect_blocks(in_place, round);
    all_.get();
    all_.check(all_.first(), 2 * block_ * seat_.size, seat_.rank, all_.first(), round);
  }
  void scatter(bool in_place, int root, int round) {
    all_.fill(round);
    DeviceBuffer apart(block_ * seat_.size, 0);  // out of place only the root has a sendbuff
    GPU_OK(gpu_api()->copy(apart.data(), all_.first(), block_ * seat_.size, GpuCopy::kAny,
                           seat_.stream));
    std::byte* const receive = in_place ? all_.second(seat_.rank) : all_.second();
    const std::byte* const send = in_place             ? all_.second()
                                  : seat_.rank == root ? apart.data()
                                                       : nullptr;
    NCCL_OK(ncclScatter(send, receive, block_, ncclInt8, root, seat_.comm, seat_.stream));
    all_.get();
    all_.check(receive, block_, root, in_place ? receive : all_.first(seat_.rank), round);
  }
  void broadcast(bool in_place, int root, int round) {
    all_.fill(round);
    const std::byte* const send = in_place             ? all_.second()
                                  : seat_.rank == root ? all_.first()
                                                       : nullptr;
    NCCL_OK(ncclBroadcast(send, all_.second(), block_, ncclInt8, root, seat_.comm, seat_.stream));
    all_.get();
    all_.check(all_.second(), block_, root, in_place ? all_.second() : all_.first(), round);
  }
  void all_to_all(int round) {
    all_.fill(round);
    NCCL_OK(ncclAlltoAll(all_.first(), all_.second(), block_, ncclInt8, seat_.comm, seat_.stream));
    all_.get();
    for (int r = 0; r < seat_.size; ++r)
      all_.check(all_.second(r), block_, r, all_.first(seat_.rank), round);
  }
  // The blocks of the first half go to all ranks by two calls of one group.
  void grouped(int round) {
    all_.fill(round);
    const std::size_t part = (block_ + 1) / 2;
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllGather(all_.first(), all_.second(), part, ncclInt8, seat_.comm, seat_.stream));
    NCCL_OK(
        ncclBroadcast(all_.second(), all_.second(), part, ncclInt8, 1, seat_.comm, seat_.stream));
    NCCL_OK(ncclGroupEnd());
    all_.get();
    for (int r = 0; r < seat_.size; ++r)  // the first part is that of rank 0, also at rank 1
      all_.check(all_.second() + r * part, part, r, all_.first(), round);
  }
  int every_call() {  // returns their number
    int round = 0;
    for (const bool in_place : {false, true})
      for (int root = 0; root < seat_.size; ++root) {
        all_gather(in_place, ++round);
        gather(in_place, root, ++round);
        scatter(in_place, root, ++round);
        broadcast(in_place, root, ++round);
        all_to_all(++round);
        grouped(++round);
        if (testing::Test::HasFatalFailure()) return round;
      }
    return round + 2 * seat_.size;  // a group has two calls
  }
  Halves& window() { return all_; }

 private:
  void expect_blocks(bool in_place, int round) {
    all_.get();
    for (int r = 0; r < seat_.size; ++r)
      all_.check(all_.second(r), block_, r, in_place ? all_.second(r) : all_.first(), round);
  }

  NcclRank& seat_;
  const std::size_t block_;
  Halves all_;
};

const NamedLayout kEnginePlaces[] = {
    {"gpus_of_their_own", as_processes(3, Gpus::kOneEach)},
    {"threads_with_gpus", {{{0, 1, 2}}}},
    {"mixed", {{{0, 1}, {2}}}},
    {"gpus_apart", as_processes(2, Gpus::kOneEach, {{"NCCL_P2P_DISABLE", "1"}})},
};

class EngineWindows : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, EngineWindows, testing::ValuesIn(kEnginePlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// Ranks of the process of this rank.
std::size_t ranks_beside(const Layout& layout, int rank) {
  std::size_t first = 0, process = 0;
  while (first + layout.processes[process].size() <= static_cast<std::size_t>(rank))
    first += layout.processes[process++].size();
  return layout.processes[process].size();
}

// Where GPUs do not reach each other, kernels run.
TEST_P(EngineWindows, GiveWhatKernelsGiveWithoutThem) {
  const bool apart = std::string(GetParam().name) == "gpus_apart";
  const Layout& layout = GetParam().layout;
  run_job(by_engines(layout), [&](NcclRank& seat) {
    const ncclConfig_t config = engines();
    seat.join(&config);
    for (const std::size_t block : {1, 1'000, 300'001}) {
      EngineCalls calls(seat, block);
      Meetings meetings;
      ASSERT_TRUE(seat.board.meet());
      meetings.begin();
      ASSERT_TRUE(seat.board.meet());
      const int made = calls.every_call();
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_TRUE(seat.board.meet());
      if (!apart) meetings.expect(2 * made * ranks_beside(layout, seat.rank));
    }
    seat.leave();
  });
}

TEST_P(EngineWindows, MayBeReplayed) {
  run_job(by_engines(GetParam().layout), [](NcclRank& seat) {
    const ncclConfig_t config = engines();
    seat.join(&config);
    {
      constexpr std::size_t kBlock = 70'001;
      Halves window(seat, kBlock);
      void* graph = nullptr;
      GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
      NCCL_OK(
          ncclAllGather(window.first(), window.second(), kBlock, ncclInt8, seat.comm, seat.stream));
      GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
      for (int round = 0; round < 3; ++round) {
        window.fill(round);
        ASSERT_TRUE(seat.board.meet());
        GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
        window.get();
        for (int r = 0; r < seat.size; ++r)
          window.check(window.second(r), kBlock, r, window.first(), round);
        ASSERT_TRUE(seat.board.meet());
      }
      GPU_OK(gpu_api()->destroy_graph(graph));
    }
    seat.leave();
  });
}

}  // namespace
}  // namespace rondo::test
