// SPDX-License-Identifier: Apache-2.0
// CTA policy ZERO and limits on CTAs: a communicator or call launches exactly what is requested.
// Only the emulated device reports how much is launched; results are checked everywhere.
#include <array>
#include <cstdlib>
#include <string>

#include "tests/gpu/device_case.h"
#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// Kernels since begin().
class Launches {
 public:
  void begin() {
#ifdef RONDO_SIMT
    before_ = simt::launch_counts().launches;
    simt::launch_counts().largest_grid = 0;
#endif
  }
  void expect(std::uint64_t minimum, std::uint64_t maximum) const {
#ifdef RONDO_SIMT
    EXPECT_GE(simt::launch_counts().launches - before_, minimum);
    EXPECT_LE(simt::launch_counts().launches - before_, maximum);
#endif
    (void)minimum, (void)maximum;
  }
  void expect_grid(unsigned minimum, unsigned maximum) const {
#ifdef RONDO_SIMT
    EXPECT_GE(simt::launch_counts().largest_grid, minimum);
    EXPECT_LE(simt::launch_counts().largest_grid, maximum);
#endif
    (void)minimum, (void)maximum;
  }

 private:
  [[maybe_unused]] std::uint64_t before_ = 0;
};

std::vector<int> places(int ranks, bool several) {
  int devices = 0;
  EXPECT_EQ(gpu_api()->device_count(&devices), kGpuSuccess);
  std::vector<int> places;
  for (int r = 0; r < ranks; ++r) places.push_back(several ? r % devices : 0);
  return places;
}

constexpr Collective kCopying[] = {Collective::kAllGather, Collective::kAllToAll,
                                   Collective::kBroadcast, Collective::kGather,
                                   Collective::kScatter};

// Only ranks that share a GPU know each other's buffers; ranks with a GPU each use kernels.
class CopyEngines : public testing::TestWithParam<bool> {
 protected:
  DeviceRanks make(int ranks) const { return DeviceRanks(places(ranks, GetParam())); }
  void expect_no_kernel() const {
    if (!GetParam()) launches.expect(0, 0);
  }
  Launches launches;
};

TEST_P(CopyEngines, MoveWhatOnlyMovesWithoutAKernel) {
  const Variable policy("NCCL_CTA_POLICY", "EFFICIENCY|ZERO");
  unsigned seed = 40;
  for (const int n : {1, 2, 3, 5}) {
    DeviceRanks ranks = make(n);
    for (const Collective collective : kCopying)
      for (const std::size_t count : {1, 1000, 70000}) {
        ++seed;
        const bool in_place = seed % 2 == 0 && collective != Collective::kAllToAll;
        const Case c{
            collective, DataType::kInt32, RedOp::kSum, n, static_cast<int>(seed) % n, count, seed};
        DeviceCase test(ranks, c, in_place, seed % 3 == 0 ? 4 : 0);
        test.fill_inputs();
        launches.begin();
        NCCL_OK(ncclGroupStart());
        for (int r = 0; r < n; ++r) NCCL_OK(test.call(r));
        NCCL_OK(ncclGroupEnd());
        expect_no_kernel();
        test.check();
        if (HasFatalFailure()) return;
      }
  }
}

TEST_P(CopyEngines, CarryMessages) {
  const Variable policy("NCCL_CTA_POLICY", "ZERO");
  DeviceRanks ranks = make(3);
  launches.begin();
  send_round_a_ring(ranks, 5001, 1);
  expect_no_kernel();
}

// Sums x, gathers it and sums the result, again and again without host waits: each call must see
// all results of the previous one, whichever devices' engines or kernels made them.
TEST_P(CopyEngines, KeepTheirPlaceAmongKernels) {
  const Variable policy("NCCL_CTA_POLICY", "ZERO");
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 200, kAll = kCount * kRanks;
  DeviceRanks ranks = make(kRanks);
  std::vector<DeviceBuffer> x, y;
  for (int r = 0; r < kRanks; ++r) {
    ranks.use_device_of(r);
    x.emplace_back(kCount * 4, 0);
    y.emplace_back(kAll * 4, 0);
    std::vector<std::int32_t> ones(kCount, 1);
    Bytes bytes(kCount * 4);
    std::memcpy(bytes.data(), ones.data(), bytes.size());
    x[r].put(bytes, 0, ranks[r].stream);
  }
  std::int32_t wanted = 1;
  for (int turn = 0; turn < 4; ++turn) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL_OK(ncclAllReduce(x[r].data(), x[r].data(), kCount, ncclInt32, ncclSum, ranks[r].comm,
                            ranks[r].stream));
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL_OK(ncclAllGather(x[r].data(), y[r].data(), kCount, ncclInt32, ranks[r].comm,
                            ranks[r].stream));
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r)
      NCCL_OK(ncclReduceScatter(y[r].data(), x[r].data(), kCount, ncclInt32, ncclSum, ranks[r].comm,
                                ranks[r].stream));
    NCCL_OK(ncclGroupEnd());
    wanted *= kRanks * kRanks;
  }
  for (int r = 0; r < kRanks; ++r) {
    x[r].get(ranks[r].stream);
    const auto* const values = reinterpret_cast<const std::int32_t*>(x[r].host());
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], wanted) << "rank " << r;
  }
}

TEST_P(CopyEngines, AreReplayedByGraphs) {
  const Variable policy("NCCL_CTA_POLICY", "ZERO");
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 700;
  DeviceRanks ranks = make(kRanks);
  std::vector<DeviceBuffer> in, out;
  GpuEvent fork = nullptr;
  std::array<GpuEvent, kRanks> joins{};
  for (int r = 0; r < kRanks; ++r) {
    ranks.use_device_of(r);
    in.emplace_back(kCount, 0);
    out.emplace_back(kCount * kRanks, 0);
    GPU_OK(gpu_api()->create_event(r == 0 ? &fork : &joins[r], kEventPlain));
  }
  void* graph = nullptr;
  ranks.use_device_of(0);
  GPU_OK(gpu_api()->begin_capture(ranks[0].stream, GpuCaptureMode::kThreadLocal));
  GPU_OK(gpu_api()->record_event(fork, ranks[0].stream, GpuEventUse::kPlain));
  for (int r = 1; r < kRanks; ++r)
    GPU_OK(gpu_api()->stream_wait_event(ranks[r].stream, fork, GpuEventUse::kPlain));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    NCCL_OK(ncclAllGather(in[r].data(), out[r].data(), kCount, ncclUint8, ranks[r].comm,
                          ranks[r].stream));
  NCCL_OK(ncclGroupEnd());
  for (int r = 1; r < kRanks; ++r) {
    ranks.use_device_of(r);
    GPU_OK(gpu_api()->record_event(joins[r], ranks[r].stream, GpuEventUse::kPlain));
    ranks.use_device_of(0);
    GPU_OK(gpu_api()->stream_wait_event(ranks[0].stream, joins[r], GpuEventUse::kPlain));
  }
  GPU_OK(gpu_api()->end_capture(ranks[0].stream, &graph));
  for (int turn = 0; turn < 3; ++turn) {
    for (int r = 0; r < kRanks; ++r)
      in[r].put(Bytes(kCount, static_cast<std::byte>(10 * turn + r + 1)), 0, ranks[r].stream);
    launches.begin();
    GPU_OK(gpu_api()->launch_graph(graph, ranks[0].stream));
    GPU_OK(gpu_api()->synchronize_stream(ranks[0].stream));
    expect_no_kernel();
    for (int r = 0; r < kRanks; ++r) {
      out[r].get(ranks[r].stream);
      for (std::size_t i = 0; i < kCount * kRanks; ++i)
        ASSERT_EQ(static_cast<int>(out[r].host()[i]), 10 * turn + 1 + static_cast<int>(i / kCount))
            << "rank " << r;
    }
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
  for (GpuEvent event : {fork, joins[1], joins[2]}) GPU_OK(gpu_api()->destroy_event(event));
}

INSTANTIATE_TEST_SUITE_P(Devices, CopyEngines, testing::Bool(),
                         [](const auto& info) { return info.param ? "several" : "one"; });

// One call of all ranks with its own options.
void gather_with(DeviceRanks& ranks, const ncclCollConfig_t& config) {
  const int n = ranks.size();
  std::vector<DeviceBuffer> in, out;
  for (int r = 0; r < n; ++r) {
    ranks.use_device_of(r);
    in.emplace_back(1000, 0);
    out.emplace_back(1000 * static_cast<std::size_t>(n), 0);
    in[r].put(Bytes(1000, static_cast<std::byte>(r + 1)), 0, ranks[r].stream);
  }
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < n; ++r)
    NCCL_OK(ncclAllGatherConfig(in[r].data(), out[r].data(), 1000, ncclUint8, ranks[r].comm,
                                ranks[r].stream, &config));
  NCCL_OK(ncclGroupEnd());
  for (int r = 0; r < n; ++r) {
    out[r].get(ranks[r].stream);
    for (std::size_t i = 0; i < 1000 * static_cast<std::size_t>(n); ++i)
      ASSERT_EQ(static_cast<std::size_t>(out[r].host()[i]), i / 1000 + 1);
  }
}

TEST(CallOptions, ChooseWhoMovesASingleCall) {
  Launches launches;
  ncclCollConfig_t engines = NCCL_COLLCONFIG_INITIALIZER, kernels = engines;
  engines.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  kernels.CTAPolicy = NCCL_CTA_POLICY_DEFAULT;
  DeviceRanks plain(3);
  launches.begin();
  gather_with(plain, engines);
  launches.expect(0, 0);
  launches.begin();
  gather_with(plain, kernels);
  launches.expect(1, 3);
  const Variable policy("NCCL_CTA_POLICY", "ZERO");
  DeviceRanks zero(3);
  launches.begin();
  gather_with(zero, kernels);
  launches.expect(1, 3);
}

// The largest grid of an all-reduce of one megabyte; the sum is checked.
void sum_with(DeviceRanks& ranks, const ncclCollConfig_t* config) {
  constexpr std::size_t kCount = 250000;
  std::vector<DeviceBuffer> x;
  std::vector<std::int32_t> threes(kCount, 3);
  Bytes bytes(kCount * 4);
  std::memcpy(bytes.data(), threes.data(), bytes.size());
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.use_device_of(r);
    x.emplace_back(kCount * 4, 0);
    x[r].put(bytes, 0, ranks[r].stream);
  }
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < ranks.size(); ++r)
    NCCL_OK(ncclAllReduceConfig(x[r].data(), x[r].data(), kCount, ncclInt32, ncclSum, ranks[r].comm,
                                ranks[r].stream, config));
  NCCL_OK(ncclGroupEnd());
  for (int r = 0; r < ranks.size(); ++r) {
    x[r].get(ranks[r].stream);
    const auto* const values = reinterpret_cast<const std::int32_t*>(x[r].host());
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], 3 * ranks.size());
  }
}

TEST(CallOptions, LimitTheCtasOfADevice) {
  Launches launches;
  DeviceRanks free(2);
  launches.begin();
  sum_with(free, nullptr);
  launches.expect_grid(5, 1000);
  ncclCollConfig_t two = NCCL_COLLCONFIG_INITIALIZER;
  two.maxCTAs = 2;
  launches.begin();
  sum_with(free, &two);
  launches.expect_grid(1, 4);
  {
    const Variable maximum("NCCL_MAX_CTAS", "1");
    DeviceRanks limited(2);
    launches.begin();
    sum_with(limited, nullptr);
    launches.expect_grid(1, 2);
  }
  const Variable many("NCCL_MAX_CTAS", "257");  // more than one byte can hold
  DeviceRanks unlimited(2);
  launches.begin();
  sum_with(unlimited, nullptr);
  launches.expect_grid(5, 1000);
}

TEST(CallOptions, LimitTheChannelsBetweenDevices) {
  if (places(2, true)[1] == 0) GTEST_SKIP() << "one device";
  for (const char* algorithm : {"ring", "twoshot"}) {
    const Variable chosen("NCCL_ALGO", algorithm);
    Launches launches;
    for (const int ctas : {3, 1}) {
      const std::string text = std::to_string(ctas);
      const Variable minimum("NCCL_MIN_CTAS", text.c_str()), maximum("NCCL_MAX_CTAS", text.c_str());
      DeviceRanks ranks(places(2, true));
      launches.begin();
      sum_with(ranks, nullptr);
      launches.expect_grid(static_cast<unsigned>(ctas), static_cast<unsigned>(ctas));
    }
  }
}

TEST(CallOptions, AnUnknownPolicyInTheEnvironmentIsIgnored) {
  const Variable policy("NCCL_CTA_POLICY", "ZERO|LESS");
  Launches launches;
  DeviceRanks ranks(2);
  ncclCollConfig_t none = NCCL_COLLCONFIG_INITIALIZER;
  launches.begin();
  gather_with(ranks, none);
  launches.expect(1, 2);
}

}  // namespace
}  // namespace rondo::test
