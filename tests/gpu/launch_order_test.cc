// SPDX-License-Identifier: Apache-2.0
// Two communicators on the same GPUs, used in opposite order: by threads if there is room for only
// one kernel at a time (launchOrderImplicit, NCCL_LAUNCH_ORDER_IMPLICIT), and by processes.
#include <barrier>
#include <thread>

#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 100'000;
constexpr int kRounds = 15;

// A communicator over all devices, driven by one thread, in place.
class Sums {
 public:
  // in_order: its config asks for launches in order.
  Sums(const std::vector<int>& devices, bool in_order) : devices_(devices), comms_(devices.size()) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (in_order) config.launchOrderImplicit = 1;
    ncclUniqueId id{};
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t r = 0; r < devices.size(); ++r) {
      EXPECT_EQ(gpu_api()->set_device(devices[r]), kGpuSuccess);
      EXPECT_EQ(ncclCommInitRankConfig(&comms_[r], static_cast<int>(devices.size()), id,
                                       static_cast<int>(r), &config),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    for (const int device : devices_) {
      EXPECT_EQ(gpu_api()->set_device(device), kGpuSuccess);
      EXPECT_EQ(gpu_api()->create_stream(&streams_.emplace_back(), 0), kGpuSuccess);
      buffers_.emplace_back(kCount * sizeof(std::int32_t), 0);
    }
  }
  ~Sums() {
    for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  void call(int first) {
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      gpu_api()->set_device(devices_[r]);
      Bytes content(kCount * sizeof(std::int32_t));
      for (std::size_t i = 0; i < kCount; ++i) {
        const auto value = static_cast<std::int32_t>(first + static_cast<int>(i + r));
        std::memcpy(&content[i * sizeof(value)], &value, sizeof(value));
      }
      buffers_[r].put(content, 0, streams_[r]);
    }
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t r = 0; r < devices_.size(); ++r)
      EXPECT_EQ(ncclAllReduce(buffers_[r].data(), buffers_[r].data(), kCount, ncclInt32, ncclSum,
                              comms_[r], streams_[r]),
                ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
  void check(int first) {
    const int n = static_cast<int>(devices_.size());
    for (int r = 0; r < n; ++r) {
      gpu_api()->set_device(devices_[r]);
      buffers_[r].get(streams_[r]);
      for (std::size_t i = 0; i < kCount; ++i) {
        std::int32_t got = 0;
        std::memcpy(&got, buffers_[r].host() + i * sizeof(got), sizeof(got));
        ASSERT_EQ(got, n * (first + static_cast<int>(i)) + n * (n - 1) / 2) << "rank " << r;
      }
    }
  }

 private:
  const std::vector<int> devices_;
  std::vector<ncclComm_t> comms_;
  std::vector<GpuStream> streams_;
  std::vector<DeviceBuffer> buffers_;
};

// How a program asks for the order.
class ImplicitOrder : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(By, ImplicitOrder, testing::Values("config", "variable"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ImplicitOrder, LetsTwoThreadsUseTwoCommunicatorsWhereOneKernelFits) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const bool by_config = GetParam() == std::string("config");
  Job job{{{{0}},
           {},
           {{"NCCL_ALGO", "ring"},
            {"RONDO_TIMEOUT", "120"},
            {"RONDO_SIMT", "multiprocessors=1,queues=64"}}}};
  if (!by_config) job.environment.emplace_back("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  job.create = false;
  run_job(job, [by_config](NcclRank&) {
    Sums one({0, 1}, by_config), other({1, 0}, by_config);
    std::barrier both(2);
    const auto use = [&both](Sums& sums, int first) {
      for (int round = 0; round < kRounds; ++round) {
        both.arrive_and_wait();
        sums.call(first + round);
        sums.check(first + round);
      }
    };
    std::thread thread([&] { use(other, 1'000'000); });
    use(one, 5);
    thread.join();
  });
}

// Processes with one GPU each use two communicators in opposite order: the kernels of both run at
// once, even if a driver runs only one cooperative kernel at a time.
TEST(LaunchOrder, MayDifferBetweenGpusOfOneCooperativeKernelAtATime) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const Layout two = as_processes(
      2, Gpus::kOneEach,
      {{"NCCL_ALGO", "ring"}, {"RONDO_TIMEOUT", "120"}, {"RONDO_SIMT", "cooperative=1,queues=64"}});
  run_job(two, [](NcclRank& one) {
    ncclComm_t comms[2] = {one.comm};
    NCCL_OK(ncclCommSplit(one.comm, 0, one.rank, &comms[1], nullptr));
    GpuStream streams[2] = {one.stream};
    GPU_OK(gpu_api()->create_stream(&streams[1], 0));
    std::vector<DeviceBuffer> buffers;
    for (int i = 0; i < 2; ++i) buffers.emplace_back(kCount * sizeof(std::int32_t), 0);
    for (int round = 0; round < 4; ++round) {
      const std::vector<std::int32_t> values(kCount, round + one.rank);
      Bytes content(kCount * sizeof(std::int32_t));
      std::memcpy(content.data(), values.data(), content.size());
      for (int i = 0; i < 2; ++i) buffers[i].put(content, 0, streams[i]);
      for (const int i : {one.rank, 1 - one.rank})
        NCCL_OK(ncclAllReduce(buffers[i].data(), buffers[i].data(), kCount, ncclInt32, ncclSum,
                              comms[i], streams[i]));
      for (int i = 0; i < 2; ++i) {
        buffers[i].get(streams[i]);
        std::int32_t last = 0;
        std::memcpy(&last, buffers[i].host() + content.size() - sizeof(last), sizeof(last));
        ASSERT_EQ(last, 2 * round + 1);
      }
    }
    NCCL_OK(ncclCommDestroy(comms[1]));
    GPU_OK(gpu_api()->destroy_stream(streams[1]));
  });
}

}  // namespace
}  // namespace rondo::test
