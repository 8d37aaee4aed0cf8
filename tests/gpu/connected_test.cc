// SPDX-License-Identifier: Apache-2.0
// Calls over connections and between devices with peer access: several devices of one process,
// rings and trees forced on one device, every protocol, against the reference.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "kernels/reduce.h"
#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr int kAllDevices = 0;

// Settings with which one communicator is made.
struct Setting {
  const char* algorithm;
  const char* protocol;
  int devices;  // over which ranks are distributed; kAllDevices: all present
};

int device_count() {
  int count = 0;
  EXPECT_EQ(gpu_api()->device_count(&count), kGpuSuccess);
  return count;
}

// On a real GPU NCCL_PROTO is trusted; the emulated one reports whether it keeps lines whole.
bool keeps_lines_whole() {
  const char* const wish = std::getenv("RONDO_SIMT");
  return std::string(gpu_api()->name) != "simt" ||
         (wish != nullptr && std::strstr(wish, "lines=whole") != nullptr);
}

std::vector<int> places(int ranks, int wanted) {
  const int used = wanted == kAllDevices ? device_count() : std::min(wanted, device_count());
  std::vector<int> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(r % used);
  return devices;
}

class Connected : public testing::TestWithParam<Setting> {
 protected:
  Connected()
      : algorithm("NCCL_ALGO", GetParam().algorithm),
        protocol("NCCL_PROTO", GetParam().protocol),
        buffers("NCCL_BUFFSIZE", "4096"),
        channels("NCCL_MAX_CTAS", "2") {}
  void SetUp() override {
    if (std::string(GetParam().protocol) == "ll128" && !keeps_lines_whole())
      GTEST_SKIP() << "lines of 128 bytes may be torn here (RONDO_SIMT=lines=whole)";
  }
  DeviceRanks make(int ranks) const { return DeviceRanks(places(ranks, GetParam().devices)); }

  const WithEnvironment algorithm, protocol, buffers, channels;
};

constexpr Collective kEveryCollective[] = {Collective::kAllReduce, Collective::kReduce,
                                           Collective::kBroadcast, Collective::kAllGather,
                                           Collective::kReduceScatter};

TEST_P(Connected, EqualTheReferenceForOddSizesAndAlignments) {
  unsigned seed = 100;
  for (const int n : {2, 3, 4, 5, 8}) {
    DeviceRanks ranks = make(n);
    for (const Collective collective : kEveryCollective) {
      const bool tree = std::string(GetParam().algorithm) == "tree";
      if (tree &&
          (collective == Collective::kAllGather || collective == Collective::kReduceScatter))
        continue;
      for (const std::size_t count : {1, 37, 3001}) {
        ++seed;
        const DataType type = seed % 3 == 0   ? DataType::kUint8
                              : seed % 3 == 1 ? DataType::kFloat64
                                              : DataType::kFloat32;
        const int root = static_cast<int>(seed) % n;
        const Case c{collective, type, RedOp::kSum, n, root, count, seed};
        run_grouped(ranks, c, seed % 2 == 0, seed % 4 == 0 ? size_of(type) : 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Connected, TakeEveryOperation) {
  DeviceRanks ranks = make(3);
  unsigned seed = 300;
  for (int op = 0; op < kRedOps; ++op) {
    // Integers wrap the same way in any order; floats use only operations that do not round.
    const auto o = static_cast<RedOp>(op);
    const bool scales = o == RedOp::kPreMulSum;
    for (const DataType type : {DataType::kInt16, DataType::kUint64, DataType::kFloat32}) {
      if (!supported(type, o)) continue;
      const Case c{Collective::kAllReduce, type, o, 3, 0, scales ? 50u : 517u, ++seed};
      run_grouped(ranks, c, seed % 2 == 0, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Connected, GoRoundManyTimesMoreThanThereAreSlots) {
  DeviceRanks ranks = make(3);
  const Case c{Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 3, 0, 30000, 9};
  for (int i = 0; i < 2; ++i) run_grouped(ranks, c, true, 0);
}

TEST_P(Connected, MeetWhereEveryRankIsAThread) {
  DeviceRanks ranks = make(4);
  const Case c{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 4, 0, 1000, 7};
  DeviceCase test(ranks, c, true, 0);
  test.fill_inputs();
  std::vector<ncclResult_t> results(4);
  on_threads(4, [&](int r) { results[r] = test.call(r); });
  for (const ncclResult_t result : results) ASSERT_EQ(result, ncclSuccess);
  test.check();
}

TEST_P(Connected, StandBesideCallsThatNeedNone) {
  DeviceRanks ranks = make(3);
  unsigned seed = 500;
  for (const Collective collective :
       {Collective::kAllToAll, Collective::kAllReduce, Collective::kGather, Collective::kScatter}) {
    run_grouped(ranks, {collective, DataType::kInt32, RedOp::kSum, 3, 1, 301, ++seed}, false, 0);
    if (HasFatalFailure()) return;
  }
  send_round_a_ring(ranks, 1001, 0);
}

TEST_P(Connected, AreReplayedByGraphs) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 700;
  DeviceRanks ranks = make(kRanks);
  std::vector<DeviceBuffer> buffers;
  GpuEvent fork = nullptr;
  GpuEvent joins[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    ranks.use_device_of(r);
    buffers.emplace_back(kCount * sizeof(std::int32_t), 0);
    GPU_OK(gpu_api()->create_event(r == 0 ? &fork : &joins[r], kEventPlain));
    Bytes ones(kCount * sizeof(std::int32_t));
    for (std::size_t i = 0; i < kCount; ++i) ones[i * sizeof(std::int32_t)] = std::byte{1};
    buffers[r].put(ones, 0, ranks[r].stream);
  }
  const auto all_reduce = [&] {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL_OK(ncclAllReduce(buffers[r].data(), buffers[r].data(), kCount, ncclInt32, ncclSum,
                            ranks[r].comm, ranks[r].stream));
    NCCL_OK(ncclGroupEnd());
  };
  void* graph = nullptr;
  ranks.use_device_of(0);
  GPU_OK(gpu_api()->begin_capture(ranks[0].stream, GpuCaptureMode::kThreadLocal));
  GPU_OK(gpu_api()->record_event(fork, ranks[0].stream, GpuEventUse::kPlain));
  for (int r = 1; r < kRanks; ++r)
    GPU_OK(gpu_api()->stream_wait_event(ranks[r].stream, fork, GpuEventUse::kPlain));
  for (int i = 0; i < 2; ++i) all_reduce();
  for (int r = 1; r < kRanks; ++r) {
    ranks.use_device_of(r);
    GPU_OK(gpu_api()->record_event(joins[r], ranks[r].stream, GpuEventUse::kPlain));
    ranks.use_device_of(0);
    GPU_OK(gpu_api()->stream_wait_event(ranks[0].stream, joins[r], GpuEventUse::kPlain));
  }
  GPU_OK(gpu_api()->end_capture(ranks[0].stream, &graph));
  constexpr int kReplays = 3;
  for (int i = 0; i < kReplays; ++i) {
    GPU_OK(gpu_api()->launch_graph(graph, ranks[0].stream));
    ranks.synchronize();
    all_reduce();
    ranks.synchronize();
  }
  std::int32_t want = 1;
  for (int i = 0; i < kReplays * 3; ++i) want *= kRanks;
  for (int r = 0; r < kRanks; ++r) {
    buffers[r].get(ranks[r].stream);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::int32_t got = 0;
      std::memcpy(&got, buffers[r].host() + i * sizeof(got), sizeof(got));
      ASSERT_EQ(got, want) << "rank " << r << " element " << i;
    }
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
  gpu_api()->destroy_event(fork);
  for (int r = 1; r < kRanks; ++r) gpu_api()->destroy_event(joins[r]);
}

// The last rank to post launches, maybe on another rank's stream; its own stream's work comes
// first.
TEST_P(Connected, ComeAfterWhatTheLastRanksStreamHolds) {
  constexpr int kRanks = 3;
  constexpr std::size_t kBytes = 1200;
  DeviceRanks ranks = make(kRanks);
  std::vector<DeviceBuffer> buffers;
  for (int r = 0; r < kRanks; ++r) {
    ranks.use_device_of(r);
    buffers.emplace_back(kBytes, 0);
    buffers[r].put(Bytes(kBytes), 0, ranks[r].stream);
  }
  void *word = nullptr, *at = nullptr;
  GPU_OK(gpu_api()->allocate_host(&word, 4, kHostPortable | kHostMapped));
  *static_cast<std::uint32_t*>(word) = 0;
  GPU_OK(gpu_api()->host_device_pointer(&at, word));
  const NcclRank& last = ranks[kRanks - 1];
  GPU_OK(gpu_api()->stream_wait32(last.stream, at, 1, GpuWait::kEqual));
  GPU_OK(gpu_api()->fill(buffers[kRanks - 1].data(), 1, kBytes, last.stream));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    NCCL_OK(ncclAllReduce(buffers[r].data(), buffers[r].data(), kBytes, ncclUint8, ncclSum,
                          ranks[r].comm, ranks[r].stream));
  NCCL_OK(ncclGroupEnd());
  nap(0.02);  // for a kernel that does not wait
  __atomic_store_n(static_cast<std::uint32_t*>(word), 1u, __ATOMIC_RELEASE);
  ranks.synchronize();
  for (int r = 0; r < kRanks; ++r) {
    buffers[r].get(ranks[r].stream);
    for (std::size_t i = 0; i < kBytes; ++i)
      ASSERT_EQ(buffers[r].host()[i], std::byte{1}) << "rank " << r << " byte " << i;
  }
  GPU_OK(gpu_api()->free_host(word));
}

// Two ranks on two devices; a word in host memory blocks rank 1's stream.
class ConnectedFaults : public testing::Test {
 protected:
  void hold_up(GpuStream stream) {
    GPU_OK(gpu_api()->allocate_host(&word, 4, kHostPortable | kHostMapped));
    *static_cast<std::uint32_t*>(word) = 0;
    void* at = nullptr;
    GPU_OK(gpu_api()->host_device_pointer(&at, word));
    GPU_OK(gpu_api()->stream_wait32(stream, at, 1, GpuWait::kEqual));
  }
  void let_go(GpuStream stream) {
    __atomic_store_n(static_cast<std::uint32_t*>(word), 1u, __ATOMIC_RELEASE);
    GPU_OK(gpu_api()->synchronize_stream(stream));
    GPU_OK(gpu_api()->free_host(word));
  }
  void all_reduce(const ncclComm_t* comms, const GpuStream* streams) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < 2; ++r)
      NCCL_OK(ncclAllReduce(buffers[r].data(), buffers[r].data(), 1000, ncclFloat32, ncclSum,
                            comms[r], streams[r]));
    NCCL_OK(ncclGroupEnd());
  }
  void SetUp() override {
    if (device_count() < 2) GTEST_SKIP() << "one device only";
    for (int r = 0; r < 2; ++r) {
      GPU_OK(gpu_api()->set_device(r));
      buffers.emplace_back(4000, 0);
    }
  }
  void TearDown() override { gpu_api()->set_device(0); }

  std::vector<DeviceBuffer> buffers;
  void* word = nullptr;
};

// A call of this size uses what the environment selects: rings, LL push, or a barrier.
class ConnectedFaultsOf : public ConnectedFaults,
                          public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, ConnectedFaultsOf,
                         testing::Values("ring", "oneshot", "twoshot", "nvls"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ConnectedFaultsOf, NameTheRankAndTheCallThatAKernelWaitedFor) {
  const WithEnvironment limit("RONDO_TIMEOUT", "0.2");
  const WithEnvironment algorithm("NCCL_ALGO", GetParam());
  DeviceRanks ranks(std::vector<int>{0, 1});
  ranks.use_device_of(1);
  hold_up(ranks[1].stream);
  all_reduce(ranks.comms().data(), ranks.streams().data());
  GPU_OK(gpu_api()->synchronize_stream(ranks[0].stream));
  ncclResult_t seen = ncclSuccess;
  NCCL_OK(ncclCommGetAsyncError(ranks[0].comm, &seen));
  EXPECT_EQ(seen, ncclTimeout);
  const std::string text = ncclGetLastError(ranks[0].comm);
  EXPECT_NE(text.find("for rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("AllReduce(count 1000, float32, sum)"), std::string::npos) << text;
  let_go(ranks[1].stream);
}

TEST_P(ConnectedFaultsOf, AbortEndsKernelsThatWait) {
  const WithEnvironment algorithm("NCCL_ALGO", GetParam());
  ncclComm_t comms[2];
  const int devices[2] = {0, 1};
  NCCL_OK(ncclCommInitAll(comms, 2, devices));
  GpuStream streams[2];
  for (int r = 0; r < 2; ++r) {
    GPU_OK(gpu_api()->set_device(r));
    GPU_OK(gpu_api()->create_stream(&streams[r], 0));
  }
  hold_up(streams[1]);
  all_reduce(comms, streams);
  EXPECT_EQ(gpu_api()->query_stream(streams[0]), kGpuNotReady);
  std::thread abort([&] { EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess); });
  GPU_OK(gpu_api()->synchronize_stream(streams[0]));
  abort.join();
  ncclResult_t seen = ncclSuccess;
  NCCL_OK(ncclCommGetAsyncError(comms[1], &seen));
  EXPECT_EQ(seen, ncclRemoteError);
  let_go(streams[1]);
  NCCL_OK(ncclCommAbort(comms[1]));
  for (GpuStream stream : streams) gpu_api()->destroy_stream(stream);
}

std::string name_of(const Setting& setting) {
  std::string name = setting.algorithm;
  std::replace(name.begin(), name.end(), ':', '_');
  if (name.empty()) name = "any";
  return name + "_" + (*setting.protocol == 0 ? "any" : setting.protocol) +
         (setting.devices == kAllDevices ? "_devices"
          : setting.devices == 1         ? "_one"
                                         : "_pairs");
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Connected,
    testing::Values(Setting{"ring", "simple", kAllDevices}, Setting{"ring", "ll", kAllDevices},
                    Setting{"tree", "simple", kAllDevices}, Setting{"tree", "ll", kAllDevices},
                    Setting{"ring", "simple", 1}, Setting{"ring", "ll", 1},
                    Setting{"tree", "simple", 1}, Setting{"tree", "ll", 1},
                    Setting{"ring", "ll128", kAllDevices}, Setting{"tree", "ll128", kAllDevices},
                    Setting{"ring", "ll128", 1}, Setting{"", "", kAllDevices}, Setting{"", "", 2},
                    Setting{"allreduce:oneshot", "ll", kAllDevices},
                    Setting{"allreduce:twoshot", "simple", kAllDevices},
                    Setting{"nvls", "simple", kAllDevices}),
    [](const testing::TestParamInfo<Setting>& info) { return name_of(info.param); });

}  // namespace
}  // namespace rondo::test
