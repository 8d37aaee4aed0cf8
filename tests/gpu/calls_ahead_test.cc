// SPDX-License-Identifier: Apache-2.0
// Ranks that enqueue calls long before their peers: as many as the driver's queue holds, then a
// wait that ends with a deadline and names who is missing.
#include "api/rondo.h"
#include "collectives/gpu/agree/control_segment.h"
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

// Sums of one float, in place.
class Sums {
 public:
  explicit Sums(NcclRank& seat) : seat_(seat), buffer_(sizeof(float), 0) {
    buffer_.put(Bytes(sizeof(float)), 0, seat.stream);
  }
  ncclResult_t call() {
    return ncclAllReduce(buffer_.data(), buffer_.data(), 1, ncclFloat32, ncclSum, seat_.comm,
                         seat_.stream);
  }

 private:
  NcclRank& seat_;
  DeviceBuffer buffer_;
};

constexpr int kCalls = 480;
static_assert(kCalls * gpu::kCommandsOfKernel <= gpu::kCommandsAhead);

TEST(CallsAhead, FillTheQueueBeforeThePeerBegins) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    std::vector<std::int32_t> values(kCalls);
    DeviceBuffer buffer(kCalls * sizeof(std::int32_t), 0);
    Bytes content(kCalls * sizeof(std::int32_t));
    for (int i = 0; i < kCalls; ++i) values[i] = i * (seat.rank + 1);
    std::memcpy(content.data(), values.data(), content.size());
    buffer.put(content, 0, seat.stream);
    auto* const data = reinterpret_cast<std::int32_t*>(buffer.data());
    const auto sum = [&](int i) {
      return ncclAllReduce(data + i, data + i, 1, ncclInt32, ncclSum, seat.comm, seat.stream);
    };
    Sums first(seat);  // makes what the first call makes
    NCCL_OK(first.call());
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    ASSERT_TRUE(seat.board.meet());
    if (seat.rank == 1) {
      ASSERT_TRUE(seat.wait_flag(1));
    }
    for (int i = 0; i < kCalls; ++i) NCCL_OK(sum(i));
    if (seat.rank == 0) seat.board.flag = 1;
    buffer.get(seat.stream);
    std::memcpy(values.data(), buffer.host(), content.size());
    for (int i = 0; i < kCalls; ++i) ASSERT_EQ(values[i], 3 * i);
  });
}

struct AheadPlace {
  const char* name;
  Gpus gpus;
};
class CallsTooFarAhead : public testing::TestWithParam<AheadPlace> {};
INSTANTIATE_TEST_SUITE_P(Places, CallsTooFarAhead,
                         testing::Values(AheadPlace{"own_gpus", Gpus::kOneEach},
                                         AheadPlace{"one_gpu", Gpus::kOne}),
                         [](const auto& info) { return std::string(info.param.name); });

// Kernels have no deadline here, so it is the host that waits.
TEST_P(CallsTooFarAhead, WaitUntilTheTimeoutAndNameTheRank) {
  if (gpus_there() < (GetParam().gpus == Gpus::kOne ? 1 : 2)) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(2, GetParam().gpus), [](NcclRank& seat) {
    Sums sums(seat);
    const int made = calls_until_timeout(seat, [&] { return sums.call(); });
    if (seat.rank == 0) {
      EXPECT_GT(made, static_cast<int>(gpu::kCallsAhead) / 2);
    }
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
}

}  // namespace
}  // namespace rondo::test
