// SPDX-License-Identifier: Apache-2.0
// Calls made while the current device is not the ranks' device: CUDA uses the streams' device, and
// Rondo sets the device where CUDA does not. The current device must not change.
#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr int kElsewhere = 0;
constexpr std::size_t kCount = 700;

class CurrentDevice : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
  static std::vector<int> devices() { return GetParam().layout.processes.front(); }
};

void expect_still_elsewhere() {
  int current = -1;
  GPU_OK(gpu_api()->get_device(&current));
  EXPECT_EQ(current, kElsewhere);
}

void call_elsewhere(DeviceRanks& ranks, DeviceCase& made) {
  GPU_OK(gpu_api()->set_device(kElsewhere));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < ranks.size(); ++r) NCCL_OK(made.call(r));
  NCCL_OK(ncclGroupEnd());
  expect_still_elsewhere();
}

TEST_P(CurrentDevice, NeedNotBeTheRanks) {
  DeviceRanks ranks(devices());
  for (const Collective which : {Collective::kAllReduce, Collective::kAllGather,
                                 Collective::kReduceScatter, Collective::kBroadcast}) {
    for (const bool in_place : {false, true}) {
      const Case c{which, DataType::kFloat32, RedOp::kSum, ranks.size(), 0, kCount, 7};
      DeviceCase made(ranks, c, in_place, 0);
      made.fill_inputs();
      call_elsewhere(ranks, made);
      made.check();
    }
  }
}

// Also if streams change, because events are then created during the call.
TEST_P(CurrentDevice, NeedNotBeTheRanksForSeveralStreams) {
  DeviceRanks ranks(devices());
  const Case c{Collective::kAllReduce, DataType::kInt32, RedOp::kSum, ranks.size(), 0, kCount, 7};
  std::vector<GpuStream> streams = ranks.streams();
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.use_device_of(r);
    GPU_OK(gpu_api()->create_stream(&streams[r], 0));
  }
  DeviceCase first(ranks, c, true, 0);
  for (int r = 0; r < ranks.size(); ++r) std::swap(ranks[r].stream, streams[r]);
  DeviceCase second(ranks, c, true, 0);
  first.fill_inputs();
  second.fill_inputs();
  GPU_OK(gpu_api()->set_device(kElsewhere));
  NCCL_OK(ncclGroupStart());
  for (DeviceCase* const one : {&first, &second})
    for (int r = 0; r < ranks.size(); ++r) NCCL_OK(one->call(r));
  NCCL_OK(ncclGroupEnd());
  expect_still_elsewhere();
  first.check();
  second.check();
  for (int r = 0; r < ranks.size(); ++r) {
    std::swap(ranks[r].stream, streams[r]);
    GPU_OK(gpu_api()->destroy_stream(streams[r]));
  }
}

TEST_P(CurrentDevice, NeedNotBeTheRanksForMessages) {
  DeviceRanks ranks(devices());
  std::vector<DeviceBuffer> sent, received;
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.use_device_of(r);
    sent.emplace_back(kCount, 0);
    received.emplace_back(kCount, 0);
    sent[r].put(Bytes(kCount, static_cast<std::byte>(r + 1)), 0, ranks[r].stream);
    received[r].put({}, 0, ranks[r].stream);
  }
  GPU_OK(gpu_api()->set_device(kElsewhere));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < ranks.size(); ++r) {
    NcclRank& one = ranks[r];
    const int next = (r + 1) % ranks.size(), before = (r + ranks.size() - 1) % ranks.size();
    NCCL_OK(ncclSend(sent[r].data(), kCount, ncclUint8, next, one.comm, one.stream));
    NCCL_OK(ncclRecv(received[r].data(), kCount, ncclUint8, before, one.comm, one.stream));
  }
  NCCL_OK(ncclGroupEnd());
  expect_still_elsewhere();
  for (int r = 0; r < ranks.size(); ++r) {
    const int before = (r + ranks.size() - 1) % ranks.size();
    received[r].get(ranks[r].stream);
    EXPECT_EQ(received[r].host()[kCount - 1], static_cast<std::byte>(before + 1));
  }
}

// A launch that CUDA refuses would end the capture.
TEST_P(CurrentDevice, NeedNotBeTheRanksInACapture) {
  DeviceRanks ranks(devices());
  const Case c{Collective::kAllReduce, DataType::kInt32, RedOp::kSum, ranks.size(), 0, kCount, 7};
  DeviceCase made(ranks, c, false, 0);
  made.fill_inputs();
  GPU_OK(gpu_api()->set_device(kElsewhere));
  std::vector<GpuEvent> joins(ranks.size());
  const auto on_device_of = [&](int rank, const auto& body) {
    ranks.use_device_of(rank);
    body();
    GPU_OK(gpu_api()->set_device(kElsewhere));
  };
  GpuEvent fork = nullptr;
  on_device_of(0, [&] { GPU_OK(gpu_api()->create_event(&fork, kEventPlain)); });
  for (int r = 1; r < ranks.size(); ++r)
    on_device_of(r, [&] { GPU_OK(gpu_api()->create_event(&joins[r], kEventPlain)); });
  GPU_OK(gpu_api()->begin_capture(ranks[0].stream, GpuCaptureMode::kRelaxed));
  GPU_OK(gpu_api()->record_event(fork, ranks[0].stream, GpuEventUse::kPlain));
  for (int r = 1; r < ranks.size(); ++r)
    GPU_OK(gpu_api()->stream_wait_event(ranks[r].stream, fork, GpuEventUse::kPlain));
  call_elsewhere(ranks, made);
  for (int r = 1; r < ranks.size(); ++r) {
    GPU_OK(gpu_api()->record_event(joins[r], ranks[r].stream, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->stream_wait_event(ranks[0].stream, joins[r], GpuEventUse::kPlain));
  }
  void* graph = nullptr;
  GPU_OK(gpu_api()->end_capture(ranks[0].stream, &graph));
  GPU_OK(gpu_api()->launch_graph(graph, ranks[0].stream));
  GPU_OK(gpu_api()->synchronize_stream(ranks[0].stream));
  made.check();
  GPU_OK(gpu_api()->destroy_graph(graph));
}

// Default streams are those of the ranks' devices; pinned memory is accessible from them.
TEST_P(CurrentDevice, NeedNotBeTheRanksForDefaultStreamsAndPinnedMemory) {
  DeviceRanks ranks(devices());
  std::vector<std::int32_t*> values(ranks.size());
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.use_device_of(r);
    void* memory = nullptr;
    GPU_OK(gpu_api()->allocate_host(&memory, kCount * 4, kHostMapped | kHostPortable));
    values[r] = static_cast<std::int32_t*>(memory);
    std::fill_n(values[r], kCount, r + 1);
  }
  for (const bool by_default : {false, true}) {
    GPU_OK(gpu_api()->set_device(kElsewhere));
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < ranks.size(); ++r)
      NCCL_OK(ncclAllReduce(values[r], values[r], kCount, ncclInt32, ncclMax, ranks[r].comm,
                            by_default ? kLegacyStream : ranks[r].stream));
    NCCL_OK(ncclGroupEnd());
    expect_still_elsewhere();
    for (int r = 0; r < ranks.size(); ++r) {
      ranks.use_device_of(r);
      GPU_OK(gpu_api()->synchronize_stream(by_default ? kLegacyStream : ranks[r].stream));
      EXPECT_EQ(values[r][kCount - 1], ranks.size());
    }
  }
  for (std::int32_t* const one : values) GPU_OK(gpu_api()->free_host(one));
}

INSTANTIATE_TEST_SUITE_P(Placements, CurrentDevice,
                         testing::Values(NamedLayout{"one_rank", {{{1}}}},
                                         NamedLayout{"one_gpu", {{{1, 1}}}},
                                         NamedLayout{"two_gpus", {{{1, 2, 1}}}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
