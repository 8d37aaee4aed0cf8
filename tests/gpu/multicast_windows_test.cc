// SPDX-License-Identifier: Apache-2.0
// Symmetric windows that are bound to multicast memory (NVLS): the switch works on buffers in them,
// without staging, and on staging if they cannot be bound.
#include "tests/gpu/multicast_accesses.h"
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

const Environment kWindowsAsked{{"NCCL_NVLS_ENABLE", "1"}};

const NamedLayout kWindowPlaces[] = {
    {"two", as_processes(2, Gpus::kOneEach, kWindowsAsked)},
    {"three", as_processes(3, Gpus::kOneEach, kWindowsAsked)},
    {"mixed", {{{2}, {1, 0}}, {}, kWindowsAsked}},
    {"threads", {{{0, 1, 2}}, {}, kWindowsAsked}},
};

class MulticastWindowsOf : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Places, MulticastWindowsOf, testing::ValuesIn(kWindowPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// A window of two halves of `elements` floats, or of one that is both; `shift` bytes off alignment.
class FloatWindow {
 public:
  FloatWindow(NcclRank& seat, std::size_t elements, bool in_place, std::size_t shift = 0)
      : seat_(seat),
        elements_(elements),
        output_(in_place ? 0 : (elements + 3) / 4 * 4),
        memory_((output_ + elements) * sizeof(float), shift, true) {
    EXPECT_EQ(
        ncclCommWindowRegister(seat.comm, memory_.data(), (output_ + elements) * sizeof(float),
                               &window_, NCCL_WIN_COLL_SYMMETRIC),
        ncclSuccess)
        << ncclGetLastError(seat.comm);
  }
  ~FloatWindow() {
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    EXPECT_TRUE(seat_.board.meet());  // no rank's calls still use it
    EXPECT_EQ(ncclCommWindowDeregister(seat_.comm, window_), ncclSuccess);
  }
  FloatWindow(const FloatWindow&) = delete;
  FloatWindow& operator=(const FloatWindow&) = delete;

  static float value(int rank, std::size_t i, int round) {
    return static_cast<float>(i % 1000 + 3 * static_cast<unsigned>(rank)) +
           10'000.0f * static_cast<float>(round);
  }
  float sum(std::size_t i, int round) const {
    float all = 0;
    for (int r = 0; r < seat_.size; ++r) all += value(r, i, round);
    return all;
  }
  // Writes from element `first` on; all other elements are guards.
  void fill(int round, std::size_t first, std::size_t count) {
    Bytes content(count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) {
      const float one = value(seat_.rank, i, round);
      std::memcpy(&content[i * sizeof(one)], &one, sizeof(one));
    }
    memory_.put(content, first * sizeof(float), seat_.stream);
    ASSERT_TRUE(seat_.board.meet());
  }
  float* send() const { return reinterpret_cast<float*>(memory_.data()); }
  float* receive() const { return send() + output_; }
  template <class Want>
  void check(std::size_t count, std::size_t first, const Want& want) {
    memory_.get(seat_.stream);
    ASSERT_TRUE(memory_.guards_intact());
    for (std::size_t i = 0; i < count; ++i) {
      float got = 0;
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

void run_in_window(NcclRank& seat, std::size_t block, bool in_place, std::size_t shift) {
  const auto n = static_cast<std::size_t>(seat.size), own = static_cast<std::size_t>(seat.rank);
  FloatWindow window(seat, block * n, in_place, shift);
  for (int round = 0; round < 2; ++round) {
    window.fill(round, 0, block);
    NCCL_OK(ncclAllReduce(window.send(), window.receive(), block, ncclFloat32, ncclSum, seat.comm,
                          seat.stream));
    window.check(block, 0, [&](std::size_t i) { return window.sum(i, round); });
    window.fill(round, 0, block * n);
    const std::size_t at = in_place ? own * block : 0;
    NCCL_OK(ncclReduceScatter(window.send(), window.receive() + at, block, ncclFloat32, ncclSum,
                              seat.comm, seat.stream));
    window.check(block, at, [&](std::size_t i) { return window.sum(own * block + i, round); });
    window.fill(round, at, block);
    NCCL_OK(ncclAllGather(window.send() + at, window.receive(), block, ncclFloat32, seat.comm,
                          seat.stream));
    window.check(block * n, 0, [&](std::size_t i) {
      return FloatWindow::value(static_cast<int>(i / block), i % block, round);
    });
  }
}

TEST_P(MulticastWindowsOf, GiveWhatOtherBuffersGive) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    for (const std::size_t block : {1, 400, 3'003, 50'000})
      for (const bool in_place : {false, true})
        for (const std::size_t shift : {0, 4}) {
          if (shift != 0 && block > 4'000) continue;
          run_in_window(seat, block, in_place, shift);
          if (testing::Test::HasFatalFailure()) return;
        }
  });
}

TEST_P(MulticastWindowsOf, MayBeReplayed) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    constexpr std::size_t kCount = 20'003;
    FloatWindow window(seat, kCount, true);
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    NCCL_OK(ncclAllReduce(window.send(), window.receive(), kCount, ncclFloat32, ncclSum, seat.comm,
                          seat.stream));
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    for (int round = 0; round < 3; ++round) {
      window.fill(round, 0, kCount);
      GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      window.check(kCount, 0, [&](std::size_t i) { return window.sum(i, round); });
    }
    GPU_OK(gpu_api()->destroy_graph(graph));
  });
}

#ifdef RONDO_SIMT

// Five floats. In staging, each of two ranks adds one vector. In windows, the last rank adds the
// only vector, and one element that it does not store by multimem.
constexpr std::size_t kFive = 5;
std::uint64_t accesses_of_five(NcclRank& seat, FloatWindow& window) {
  const std::uint64_t before = multicast_accesses();
  EXPECT_EQ(ncclAllReduce(window.send(), window.receive(), kFive, ncclFloat32, ncclSum, seat.comm,
                          seat.stream),
            ncclSuccess);
  EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
  return multicast_accesses() - before;
}

TEST(MulticastWindows, NeedNoStaging) {
  run_job(as_processes(2, Gpus::kOneEach, kWindowsAsked), [](NcclRank& seat) {
    FloatWindow aligned(seat, kFive, false), shifted(seat, kFive, false, 4);
    EXPECT_EQ(accesses_of_five(seat, aligned), seat.rank == 0 ? 0u : 3u);
    EXPECT_EQ(accesses_of_five(seat, shifted), 2u);
  });
}

TEST(MulticastWindows, WorkAsBeforeWhereARankCannotBindThem) {
  for (const char* call : {"multicast_add", "multicast_bind"}) {
    const RankLogs logs;
    run_job(as_processes(2, Gpus::kOneEach, kWindowsAsked), [&](NcclRank& seat) {
      logs.use(seat.rank);
      if (seat.rank == 1) simt::refuse_call(call);
      FloatWindow window(seat, kFive, false);
      std::string line;
      EXPECT_EQ(logs.count(seat.rank, "a window has no multicast memory", &line), 1);
      EXPECT_NE(line.find("since rank 1 could not join"), std::string::npos) << line;
      EXPECT_EQ(accesses_of_five(seat, window), 2u);
      run_in_window(seat, 1'000, true, 0);
    });
  }
}

// One rank's buffer is in no window: all ranks get an error that names the reason, and none hangs.
TEST(MulticastWindows, AreForAllRanksOrForNone) {
  RankProcesses ranks(as_processes(2, Gpus::kOneEach, kWindowsAsked), [](NcclRank& seat) {
    constexpr std::size_t kCount = 10'000;
    ncclResult_t result = ncclSuccess;
    {
      FloatWindow window(seat, kCount, true);
      DeviceBuffer elsewhere(kCount * sizeof(float), 0);
      void* const memory = seat.rank == 0 ? static_cast<void*>(window.send()) : elsewhere.data();
      result = ncclAllReduce(memory, memory, kCount, ncclFloat32, ncclSum, seat.comm, seat.stream);
      while (result == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(seat.comm, &result));
    }
    report_and_abort(seat, result);
  });
  ASSERT_TRUE(ranks.wait_reports());
  expect_reports(ranks, 2, StatusCode::kInvalidUsage,
                 "the buffers of rank 0 lie in symmetric windows");
}

#endif

}  // namespace
}  // namespace rondo::test
