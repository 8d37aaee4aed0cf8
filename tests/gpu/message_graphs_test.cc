// SPDX-License-Identifier: Apache-2.0
// Messages between ranks of one process, each of which captures its part into its own graph.
#include <chrono>
#include <thread>

#include "tests/gpu/device_case.h"
#include "transport/cuda/device.h"

namespace rondo::test {
namespace {

constexpr int kMessageRanks = 3;
constexpr int kMessageRounds = 4;

// Every rank sends to both neighbours and receives from both: `bytes` to the next one, half of that
// to the previous one.
class MessageGraphs : public testing::TestWithParam<std::size_t> {
 protected:
  MessageGraphs() : ranks(places()) {
    for (int r = 0; r < kMessageRanks; ++r) {
      ranks.use_device_of(r);
      const std::size_t shift = static_cast<std::size_t>(r);  // no two alike
      out.emplace_back(bytes, shift);
      from_before.emplace_back(bytes, shift);
      from_next.emplace_back(bytes / 2, shift);
    }
  }
  static std::vector<int> places() {
    int there = 0;
    EXPECT_EQ(gpu_api()->device_count(&there), kGpuSuccess);
    std::vector<int> devices;
    for (int r = 0; r < kMessageRanks; ++r) devices.push_back(there < kMessageRanks ? 0 : r);
    return devices;
  }
  static bool has_a_gpu_a_rank() { return places().back() == kMessageRanks - 1; }

  static std::byte content(int rank, int round, std::size_t i) {
    return static_cast<std::byte>(i * 7 + i / 256 + static_cast<std::size_t>(rank * 50 + round));
  }
  Bytes sent_by(int rank, int round) const {
    Bytes sent(bytes);
    for (std::size_t i = 0; i < bytes; ++i) sent[i] = content(rank, round, i);
    return sent;
  }
  void fill(int round) {
    for (int r = 0; r < kMessageRanks; ++r) {
      ranks.use_device_of(r);
      out[r].put(sent_by(r, round), 0, ranks[r].stream);
      from_before[r].put({}, 0, ranks[r].stream);
      from_next[r].put({}, 0, ranks[r].stream);
    }
  }
  void check(int round) {
    for (int r = 0; r < kMessageRanks; ++r) {
      ranks.use_device_of(r);
      const auto compare = [&](DeviceBuffer& got, std::size_t size, int sender) {
        got.get(ranks[r].stream);
        for (std::size_t i = 0; i < size; ++i)
          ASSERT_EQ(got.host()[i], content(sender, round, i))
              << "rank " << r << " from " << sender << " byte " << i << " round " << round;
        EXPECT_TRUE(got.guards_intact());
      };
      compare(from_before[r], bytes, before(r));
      compare(from_next[r], bytes / 2, next(r));
    }
  }
  static int next(int r) { return (r + 1) % kMessageRanks; }
  static int before(int r) { return (r + kMessageRanks - 1) % kMessageRanks; }

  void exchange(int r) {
    const ncclComm_t comm = ranks[r].comm;
    const GpuStream stream = ranks[r].stream;
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(out[r].data(), bytes, ncclUint8, next(r), comm, stream));
    NCCL_OK(ncclSend(out[r].data(), bytes / 2, ncclUint8, before(r), comm, stream));
    NCCL_OK(ncclRecv(from_before[r].data(), bytes, ncclUint8, before(r), comm, stream));
    NCCL_OK(ncclRecv(from_next[r].data(), bytes / 2, ncclUint8, next(r), comm, stream));
    NCCL_OK(ncclGroupEnd());
  }
  void begin(int r, GpuCaptureMode mode) {
    GPU_OK(gpu_api()->begin_capture(ranks[r].stream, mode));
  }
  void end(int r) { GPU_OK(gpu_api()->end_capture(ranks[r].stream, &graphs[r])); }

  static void wait_a_little(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

  // In another order every time, with plain messages between; one rank's sends are late.
  void replay() {
    for (int round = 0; round < kMessageRounds; ++round) {
      fill(round);
      const int late = round % kMessageRanks;
      ranks.use_device_of(late);
      out[late].put(sent_by(late, 200 + round), 0, ranks[late].stream);
      const Bytes sent = sent_by(late, round);
      GPU_OK(gpu_api()->launch_host(ranks[late].stream, wait_a_little, nullptr));
      GPU_OK(gpu_api()->copy(out[late].data(), sent.data(), bytes, GpuCopy::kHostToDevice,
                             ranks[late].stream));
      for (int i = 0; i < kMessageRanks; ++i) {
        const int r = (i + round / 2) % kMessageRanks;
        ranks.use_device_of(r);
        GPU_OK(gpu_api()->launch_graph(graphs[r], ranks[r].stream));
      }
      check(round);
      if (HasFatalFailure()) break;
      fill(100 + round);
      NCCL_OK(ncclGroupStart());
      for (int r = 0; r < kMessageRanks; ++r) exchange(r);
      NCCL_OK(ncclGroupEnd());
      check(100 + round);
      if (HasFatalFailure()) break;
    }
    for (void* graph : graphs) GPU_OK(gpu_api()->destroy_graph(graph));
  }

  // Graphs that do not meet soon end with an error.
  const WithEnvironment timeout{"RONDO_TIMEOUT", "120"};
  const std::size_t bytes = GetParam();
  DeviceRanks ranks;
  std::vector<DeviceBuffer> out, from_before, from_next;
  std::vector<void*> graphs = std::vector<void*>(kMessageRanks);
};

INSTANTIATE_TEST_SUITE_P(Bytes, MessageGraphs, testing::Values(2, 1000, 100'000));

TEST_P(MessageGraphs, MeetOnTheDevices) {
  if (!has_a_gpu_a_rank()) GTEST_SKIP() << "needs a GPU a rank";
  if (gpu::blocking_launches()) GTEST_SKIP() << "one thread launches graphs that need each other";
  for (int r = 0; r < kMessageRanks; ++r) begin(r, GpuCaptureMode::kRelaxed);
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kMessageRanks; ++r) exchange(r);
  NCCL_OK(ncclGroupEnd());
  for (int r = 0; r < kMessageRanks; ++r) end(r);
  replay();
}

TEST_P(MessageGraphs, MeetWhereEveryRankIsAThread) {
  if (!has_a_gpu_a_rank()) GTEST_SKIP() << "needs a GPU a rank";
  if (gpu::blocking_launches()) GTEST_SKIP() << "one thread launches graphs that need each other";
  std::vector<std::thread> threads;
  for (int r = 0; r < kMessageRanks; ++r)
    threads.emplace_back([this, r] {
      ranks.use_device_of(r);
      begin(r, GpuCaptureMode::kThreadLocal);
      exchange(r);
      exchange(r);
      end(r);
    });
  for (std::thread& thread : threads) thread.join();
  replay();
}

// Two ranks; the first sends to the second, each in its own graph.
class MessageGraphsOf : public testing::Test {
 protected:
  void capture(const std::vector<int>& devices) {
    NCCL_OK(ncclCommInitAll(comms, 2, devices.data()));
    for (int r = 0; r < 2; ++r) {
      GPU_OK(gpu_api()->set_device(devices[r]));
      buffers.emplace_back(8, 0);
      GPU_OK(gpu_api()->create_stream(&streams[r], 0));
      GPU_OK(gpu_api()->begin_capture(streams[r], GpuCaptureMode::kRelaxed));
    }
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(buffers[0].data(), 8, ncclUint8, 1, comms[0], streams[0]));
    NCCL_OK(ncclRecv(buffers[1].data(), 8, ncclUint8, 0, comms[1], streams[1]));
    result = ncclGroupEnd();
    for (int r = 0; r < 2; ++r) GPU_OK(gpu_api()->end_capture(streams[r], &graphs[r]));
  }
  ~MessageGraphsOf() override {
    for (int r = 0; r < 2; ++r) {
      if (graphs[r] != nullptr) gpu_api()->destroy_graph(graphs[r]);
      if (streams[r] != nullptr) gpu_api()->destroy_stream(streams[r]);
    }
    gpu_api()->set_device(0);
  }
  ncclComm_t comms[2] = {};
  GpuStream streams[2] = {};
  void* graphs[2] = {};
  std::vector<DeviceBuffer> buffers;
  ncclResult_t result = ncclSuccess;
};

TEST_F(MessageGraphsOf, RanksThatShareAGpuAreRefused) {
  capture({0, 0});
  EXPECT_EQ(result, ncclInvalidUsage);
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find("share a GPU"), std::string::npos) << text;
  for (const ncclComm_t comm : comms) NCCL_OK(ncclCommAbort(comm));
}

// A send that fits into slots waits for nobody.
TEST_F(MessageGraphsOf, AReceiverWaitsForItsSenderUntilAnAbort) {
  int there = 0;
  GPU_OK(gpu_api()->device_count(&there));
  if (there < 2) GTEST_SKIP() << "needs two GPUs";
  if (gpu::blocking_launches()) GTEST_SKIP() << "the launch would wait";
  capture({0, 1});
  ASSERT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr);
  GPU_OK(gpu_api()->set_device(1));
  GPU_OK(gpu_api()->launch_graph(graphs[1], streams[1]));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(gpu_api()->query_stream(streams[1]), kGpuNotReady);
  std::thread abort([&] { EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess); });
  GPU_OK(gpu_api()->synchronize_stream(streams[1]));
  abort.join();
  NCCL_OK(ncclCommAbort(comms[0]));
}

}  // namespace
}  // namespace rondo::test
