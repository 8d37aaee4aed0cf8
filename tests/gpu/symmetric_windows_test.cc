// SPDX-License-Identifier: Apache-2.0
// Collectives on buffers in symmetric windows (NCCL_WIN_COLL_SYMMETRIC), on GPUs of several
// processes: in place, at any size.
#include "collectives/planner/tune_file.h"
#include "tests/gpu/process_bodies.h"
#include "tests/support/temporary_folder.h"
#include "transport/cuda/device.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

// Only shared direct kernels: sizes above their staging run only in windows.
const Environment kSharedAlone{{"NCCL_ALGO", "twoshot,direct"}};

const NamedLayout kSymmetricPlaces[] = {
    {"gpus_of_their_own", as_processes(3, Gpus::kOneEach, kSharedAlone)},
    {"usual_algorithms", as_processes(4, Gpus::kOneEach)},
    {"mixed", {{{0, 1}, {2}}, {}, kSharedAlone}},
    {"one_gpu", as_processes(2, Gpus::kOne)},
    {"gpus_apart", as_processes(2, Gpus::kOneEach, {{"NCCL_P2P_DISABLE", "1"}})},
};

class WindowsOf : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, WindowsOf, testing::ValuesIn(kSymmetricPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// A window whose first half is read and second half written; or both are one.
class InWindow {
 public:
  InWindow(NcclRank& seat, std::size_t elements, bool in_place, int flags)
      : seat_(seat),
        elements_(elements),
        output_(in_place ? 0 : elements),
        memory_(2 * elements * sizeof(std::int32_t), 0, true) {
    EXPECT_EQ(ncclCommWindowRegister(seat.comm, memory_.data(), 2 * elements * sizeof(std::int32_t),
                                     &window_, flags),
              ncclSuccess)
        << ncclGetLastError(seat.comm);
  }
  ~InWindow() {
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(seat_.comm, window_), ncclSuccess);
  }
  InWindow(const InWindow&) = delete;
  InWindow& operator=(const InWindow&) = delete;

  static std::int32_t value(int rank, std::size_t i, int round) {
    return static_cast<std::int32_t>(i % 1000) * 7 + rank * 10'000 + round;
  }
  void fill(int round) {
    Bytes content(elements_ * sizeof(std::int32_t));
    for (std::size_t i = 0; i < elements_; ++i) {
      const std::int32_t one = value(seat_.rank, i, round);
      std::memcpy(&content[i * sizeof(one)], &one, sizeof(one));
    }
    memory_.put(content, 0, seat_.stream);
  }
  std::byte* send() const { return memory_.data(); }
  std::byte* receive() const { return memory_.data() + output_ * sizeof(std::int32_t); }
  // want(i): expected element i of the output.
  template <class Want>
  void check(std::size_t count, std::size_t first, const Want& want) {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t got = 0;
      std::memcpy(&got, memory_.host() + (output_ + first + i) * sizeof(got), sizeof(got));
      ASSERT_EQ(got, want(i)) << "element " << i << " of rank " << seat_.rank;
    }
  }

 private:
  NcclRank& seat_;
  const std::size_t elements_, output_;
  DeviceBuffer memory_;
  ncclWindow_t window_ = nullptr;
};

void run_in_window(NcclRank& seat, std::size_t block, bool in_place, int flags) {
  const auto n = static_cast<std::size_t>(seat.size);
  const auto own = static_cast<std::size_t>(seat.rank);
  InWindow window(seat, block * n, in_place, flags);
  const auto sum = [&](std::size_t i, int round) {
    std::int32_t all = 0;
    for (int r = 0; r < seat.size; ++r) all += InWindow::value(r, i, round);
    return all;
  };
  for (int round = 0; round < 2; ++round) {
    window.fill(round);
    NCCL_OK(ncclAllReduce(window.send(), window.receive(), block, ncclInt32, ncclSum, seat.comm,
                          seat.stream));
    window.check(block, 0, [&](std::size_t i) { return sum(i, round); });
    window.fill(round);
    const std::size_t at = in_place ? own * block : 0;
    NCCL_OK(ncclReduceScatter(window.send(), window.receive() + at * sizeof(std::int32_t), block,
                              ncclInt32, ncclSum, seat.comm, seat.stream));
    window.check(block, at, [&](std::size_t i) { return sum(own * block + i, round); });
    window.fill(round);
    NCCL_OK(ncclAllGather(window.send() + at * sizeof(std::int32_t), window.receive(), block,
                          ncclInt32, seat.comm, seat.stream));
    window.check(block * n, 0, [&](std::size_t i) {
      return InWindow::value(static_cast<int>(i / block), in_place ? i : i % block, round);
    });
    if (in_place) continue;
    window.fill(round);
    NCCL_OK(
        ncclAlltoAll(window.send(), window.receive(), block, ncclInt32, seat.comm, seat.stream));
    window.check(block * n, 0, [&](std::size_t i) {
      return InWindow::value(static_cast<int>(i / block), own * block + i % block, round);
    });
  }
}

TEST_P(WindowsOf, GiveWhatOtherBuffersGive) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    for (const std::size_t block : {1, 1'000, 30'001})
      for (const bool in_place : {false, true}) {
        run_in_window(seat, block, in_place, NCCL_WIN_COLL_SYMMETRIC);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

// 16 and 18 GPUs share calls, in windows (but all-to-alls, and all-gathers of 18) and through
// staging; 20, whose addresses are in a table, copies through staging, and sums of floats.
class ManyGpus : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Numbers, ManyGpus, testing::Values(16, 18, 20));

TEST_P(ManyGpus, ShareCalls) {
  Layout layout{{{}, {}}, {}, {{"RONDO_SIMT_DEVICES", "20"}, kSharedAlone.front()}};
  for (int gpu = 0; gpu < GetParam(); ++gpu) layout.processes[gpu % 2].push_back(gpu);
  if (gpus_there(layout.environment) < GetParam()) GTEST_SKIP() << "too few GPUs";
  run_job(layout, [](NcclRank& seat) {
    for (const int flags : {NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_DEFAULT}) {
      run_in_window(seat, 1'001, false, flags);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// More than shared direct kernels have staging for. With windows no staging is made, and rank 0's
// process runs no other rank's call.
TEST_P(WindowsOf, NeedNoStagingAtAnySize) {
  const Environment& settings = GetParam().layout.environment;
  const bool alone = settings == kSharedAlone;
  run_job(GetParam().layout, [=](NcclRank& seat) {
    constexpr std::size_t kBlock = 750'000, kCount = 2'200'000;
    std::uint64_t before = 0, after = 0;
    const InWindow first(seat, 1, true, NCCL_WIN_DEFAULT);  // makes the memory for signals
    NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &before));
    run_in_window(seat, kBlock, false, NCCL_WIN_COLL_SYMMETRIC);
    if (testing::Test::HasFatalFailure() || !alone) return;
    NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &after));
    EXPECT_EQ(after, before);
    InWindow plain(seat, kCount, true, NCCL_WIN_DEFAULT);
    DeviceBuffer elsewhere(kCount * sizeof(std::int32_t), 0);
    NCCL_OK(ncclAllReduce(plain.send(), elsewhere.data(), kCount, ncclInt32, ncclSum, seat.comm,
                          seat.stream));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &after));
    if (seat.rank == 0) {
      EXPECT_GT(after, before + (64 << 20));
    }
  });
}

#ifdef RONDO_SIMT
// A large call runs on 32 CTAs, or on 64 if 32 could not keep the links busy: here by a tune file
// with slow copies.
TEST(SymmetricWindows, GetAsManyCtasAsTheirLinksNeed) {
  struct Row {
    double copy_gbs;  // 0: the priors
    unsigned ctas;
  };
  for (const Row row : {Row{0, 32}, Row{0.1, 64}}) {
    Job job = as_processes(2, Gpus::kOneEach, kSharedAlone);
    job.create = false;
    run_job(job, [=](NcclRank& seat) {
      const TemporaryFolder folder;
      TuneFile file = tune_key_of_this_machine();
      file.gpu = rondo::gpu::device_name_of(0);
      file.device.set(rondo::gpu::DeviceRate::kCopy, 1 / row.copy_gbs);
      if (row.copy_gbs > 0)
        setenv("RONDO_TUNE_FILE", folder.file("slow", format_tune_file(file)).c_str(), 1);
      seat.join();
      simt::launch_counts().largest_grid = 0;
      run_in_window(seat, 750'001, false, NCCL_WIN_COLL_SYMMETRIC);
      EXPECT_EQ(simt::launch_counts().largest_grid, row.ctas);
      seat.leave();
    });
  }
}
#endif

TEST_P(WindowsOf, MayBeReplayed) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    constexpr std::size_t kCount = 40'000;
    InWindow window(seat, kCount, true, NCCL_WIN_COLL_SYMMETRIC);
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    NCCL_OK(ncclAllReduce(window.send(), window.receive(), kCount, ncclInt32, ncclSum, seat.comm,
                          seat.stream));
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    for (int round = 0; round < 3; ++round) {
      window.fill(round);
      ASSERT_TRUE(seat.board.meet());
      GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      window.check(kCount, 0, [&](std::size_t i) {
        std::int32_t all = 0;
        for (int r = 0; r < seat.size; ++r) all += InWindow::value(r, i, round);
        return all;
      });
      ASSERT_TRUE(seat.board.meet());
    }
    GPU_OK(gpu_api()->destroy_graph(graph));
  });
}

// One rank's buffer is in no window: all ranks get an error that names the reason, and none hangs.
TEST(SymmetricWindows, AreForAllRanksOrForNone) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  RankProcesses ranks(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    constexpr std::size_t kCount = 100'000;  // no LL push, which works anywhere
    ncclResult_t result = ncclSuccess;
    {
      InWindow window(seat, kCount, true, NCCL_WIN_COLL_SYMMETRIC);
      DeviceBuffer elsewhere(kCount * sizeof(std::int32_t), 0);
      std::byte* const memory = seat.rank == 0 ? window.send() : elsewhere.data();
      result = ncclAllReduce(memory, memory, kCount, ncclInt32, ncclSum, seat.comm, seat.stream);
      while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    }
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_reports());
  expect_reports(ranks, 2, StatusCode::kInvalidUsage,
                 "the buffers of rank 0 lie in symmetric windows");
}

// The same in replays, which no host compares. Outside of windows the call is a shared kernel,
// which meets the one in windows, so that both would end with wrong sums; or a ring, so that both
// hang (by LL: a ring of Simple would be faster than the call in windows, and run there, too).
class ReplayedWindows : public testing::TestWithParam<std::pair<const char*, Environment>> {};
INSTANTIATE_TEST_SUITE_P(Outside, ReplayedWindows,
                         testing::Values(std::pair("shared", kSharedAlone),
                                         std::pair("ring",
                                                   Environment{{"NCCL_ALGO", "twoshot,ring"},
                                                               {"NCCL_PROTO", "LL"}})),
                         [](const auto& info) { return std::string(info.param.first); });

TEST_P(ReplayedWindows, AreForAllRanksOrForNone) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const bool shared = GetParam().second == kSharedAlone;
  const std::size_t count =
      shared ? 40'000 : 2'200'000;  // more than shared kernels have staging for
  RankProcesses ranks(as_processes(2, Gpus::kOneEach, GetParam().second), [=](NcclRank& seat) {
    ncclResult_t result = ncclSuccess;
    {
      InWindow window(seat, count, true, NCCL_WIN_COLL_SYMMETRIC);
      DeviceBuffer elsewhere(count * sizeof(std::int32_t), 0);
      std::byte* const memory = seat.rank == 0 ? window.send() : elsewhere.data();
      void* graph = nullptr;
      GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
      NCCL_OK(ncclAllReduce(memory, memory, count, ncclInt32, ncclSum, seat.comm, seat.stream));
      GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
      GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));  // the error ends the kernels
      GPU_OK(gpu_api()->destroy_graph(graph));
    }
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_reports());
  expect_reports(ranks, 2, StatusCode::kInvalidUsage,
                 "the buffers of rank 0 lie in symmetric windows and those of rank 1 do not");
}

}  // namespace
}  // namespace rondo::test
