// SPDX-License-Identifier: Apache-2.0
// Buffers in memory that only its own device can access, although the devices have peer access: as
// in PyTorch's expandable segments and pools of cudaMallocAsync, unless the program grants access.
#include <algorithm>
#include <optional>
#include <tuple>

#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr int kAccessRanks = 3;

// Memory mapped by address; `users`: devices with access.
class MappedBuffer {
 public:
  MappedBuffer(std::size_t bytes, int owner, const std::vector<int>& users) {
    const GpuApi& api = *gpu_api();
    std::size_t grain = 0;
    EXPECT_EQ(api.vmm_granularity(&grain, owner), kGpuSuccess);
    bytes_ = (bytes + grain - 1) / grain * grain;
    EXPECT_EQ(api.vmm_create(&memory_, bytes_, owner), kGpuSuccess);
    EXPECT_EQ(api.vmm_reserve(&at_, bytes_, 0), kGpuSuccess);
    EXPECT_EQ(api.vmm_map(at_, bytes_, memory_), kGpuSuccess);
    for (const int user : users) EXPECT_EQ(api.vmm_allow(at_, bytes_, user), kGpuSuccess);
  }
  MappedBuffer(MappedBuffer&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_), memory_(other.memory_) {}
  MappedBuffer& operator=(MappedBuffer&&) = delete;
  ~MappedBuffer() {
    if (at_ == nullptr) return;
    const GpuApi& api = *gpu_api();
    EXPECT_EQ(api.vmm_unmap(at_, bytes_), kGpuSuccess);
    EXPECT_EQ(api.vmm_release(memory_), kGpuSuccess);
    EXPECT_EQ(api.vmm_unreserve(at_, bytes_), kGpuSuccess);
  }
  int* data() const { return static_cast<int*>(at_); }

 private:
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
  GpuAllocation memory_ = 0;
};

// Element i of rank r's input.
int value_of(int rank, std::size_t i) { return static_cast<int>(i * 7) + 1000 * (rank + 1); }

// Memory of its device's pool, in the order of its rank's stream.
class PoolBuffer {
 public:
  PoolBuffer(std::size_t bytes, GpuStream stream) : stream_(stream) {
    EXPECT_EQ(gpu_api()->pool_allocate(&at_, bytes, stream), kGpuSuccess);
  }
  PoolBuffer(PoolBuffer&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), stream_(other.stream_) {}
  PoolBuffer& operator=(PoolBuffer&&) = delete;
  ~PoolBuffer() {
    if (at_ == nullptr) return;
    EXPECT_EQ(gpu_api()->pool_free(at_, stream_), kGpuSuccess);
  }
  int* data() const { return static_cast<int*>(at_); }

 private:
  void* at_ = nullptr;
  GpuStream stream_;
};

enum class Kind { kMapped, kPool, kOpenedPool };
struct OwnBuffer {
  std::optional<MappedBuffer> mapped;
  std::optional<PoolBuffer> pooled;
  int* data() const { return mapped ? mapped->data() : pooled->data(); }
};

class OwnAccess : public testing::TestWithParam<std::tuple<Kind, std::size_t>> {
 protected:
  void SetUp() override {
    int there = 0;
    EXPECT_EQ(gpu_api()->device_count(&there), kGpuSuccess);
    if (there < kAccessRanks) GTEST_SKIP() << "too few GPUs";
    ranks = std::make_unique<DeviceRanks>(std::vector<int>{0, 1, 2});
    for (int r = 0; r < kAccessRanks; ++r) {
      const std::size_t bytes = count() * kAccessRanks * sizeof(int);
      ranks->use_device_of(r);
      for (int other = 0; kind() == Kind::kOpenedPool && other < kAccessRanks; ++other)
        if (other != r) GPU_OK(gpu_api()->pool_allow(r, other, true));
      for (auto* const buffers : {&in, &out}) {
        buffers->emplace_back();
        if (kind() == Kind::kMapped) {
          buffers->back().mapped.emplace(bytes, r, std::vector<int>{r});
        } else {
          buffers->back().pooled.emplace(bytes, (*ranks)[r].stream);
        }
      }
      std::vector<int> values(count() * kAccessRanks);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(r, i);
      EXPECT_EQ(gpu_api()->copy(in[r].data(), values.data(), bytes, GpuCopy::kHostToDevice,
                                (*ranks)[r].stream),
                kGpuSuccess);
      EXPECT_EQ(gpu_api()->synchronize_stream((*ranks)[r].stream), kGpuSuccess);
    }
  }
  void TearDown() override {
    if (!ranks) return;  // skipped
    for (int r = 0; kind() == Kind::kOpenedPool && r < kAccessRanks; ++r)
      for (int other = 0; other < kAccessRanks; ++other)
        if (other != r) GPU_OK(gpu_api()->pool_allow(r, other, false));
    in.clear(), out.clear();  // on streams that still exist
  }
  static Kind kind() { return std::get<0>(GetParam()); }
  static std::size_t count() { return std::get<1>(GetParam()); }
  template <class Call>
  void run(const Call& call) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kAccessRanks; ++r) NCCL_OK(call(r, (*ranks)[r].comm, (*ranks)[r].stream));
    NCCL_OK(ncclGroupEnd());
  }
  // want(rank, i): expected first elements of what the rank received.
  template <class Want>
  void check(std::size_t elements, const Want& want) {
    for (int r = 0; r < kAccessRanks; ++r) {
      std::vector<int> got(elements);
      ranks->use_device_of(r);
      GPU_OK(gpu_api()->copy(got.data(), out[r].data(), elements * sizeof(int),
                             GpuCopy::kDeviceToHost, (*ranks)[r].stream));
      GPU_OK(gpu_api()->synchronize_stream((*ranks)[r].stream));
      for (std::size_t i = 0; i < elements; ++i)
        ASSERT_EQ(got[i], want(r, i)) << "rank " << r << " element " << i;
    }
  }

  std::unique_ptr<DeviceRanks> ranks;
  std::vector<OwnBuffer> in, out;
};
INSTANTIATE_TEST_SUITE_P(Closed, OwnAccess,
                         testing::Combine(testing::Values(Kind::kMapped, Kind::kPool),
                                          testing::Values(100, 20'000, 400'000)));
INSTANTIATE_TEST_SUITE_P(Opened, OwnAccess,
                         testing::Combine(testing::Values(Kind::kOpenedPool),
                                          testing::Values(100, 20'000)));

TEST_P(OwnAccess, NoKernelOfAnotherDeviceTouchesIt) {
  const std::size_t n = count();
  run([&](int r, ncclComm_t comm, GpuStream stream) {
    return ncclAllReduce(in[r].data(), out[r].data(), n, ncclInt32, ncclSum, comm, stream);
  });
  check(n, [](int, std::size_t i) { return value_of(0, i) + value_of(1, i) + value_of(2, i); });
  run([&](int r, ncclComm_t comm, GpuStream stream) {
    return ncclAllGather(in[r].data(), out[r].data(), n, ncclInt32, comm, stream);
  });
  check(3 * n, [n](int, std::size_t i) { return value_of(static_cast<int>(i / n), i % n); });
  run([&](int r, ncclComm_t comm, GpuStream stream) {
    return ncclAlltoAll(in[r].data(), out[r].data(), n, ncclInt32, comm, stream);
  });
  check(3 * n, [n](int r, std::size_t i) {
    return value_of(static_cast<int>(i / n), static_cast<std::size_t>(r) * n + i % n);
  });
  run([&](int r, ncclComm_t comm, GpuStream stream) {
    const ncclResult_t sent =
        ncclSend(in[r].data(), n, ncclInt32, (r + 1) % kAccessRanks, comm, stream);
    if (sent != ncclSuccess) return sent;
    return ncclRecv(out[r].data(), n, ncclInt32, (r + kAccessRanks - 1) % kAccessRanks, comm,
                    stream);
  });
  check(n, [](int r, std::size_t i) { return value_of((r + kAccessRanks - 1) % kAccessRanks, i); });
}

// As in programs with such a pool: the host does not wait between allocation and free.
TEST_P(OwnAccess, APoolsMemoryLivesFromAllocationToFreeInTheStreamsOrder) {
  if (kind() == Kind::kMapped) GTEST_SKIP() << "mapped by the host, not by a stream";
  const std::size_t bytes = count() * sizeof(int);
  for (int round = 0; round < 3; ++round) {
    std::vector<PoolBuffer> inputs, outputs;
    for (int r = 0; r < kAccessRanks; ++r) {
      ranks->use_device_of(r);
      inputs.emplace_back(bytes, (*ranks)[r].stream);
      outputs.emplace_back(bytes, (*ranks)[r].stream);
      GPU_OK(gpu_api()->copy(inputs[r].data(), in[r].data(), bytes, GpuCopy::kDeviceToDevice,
                             (*ranks)[r].stream));
    }
    run([&](int r, ncclComm_t comm, GpuStream stream) {
      return ncclAllReduce(inputs[r].data(), outputs[r].data(), count(), ncclInt32, ncclSum, comm,
                           stream);
    });
    for (int r = 0; r < kAccessRanks; ++r) {
      ranks->use_device_of(r);
      GPU_OK(gpu_api()->copy(out[r].data(), outputs[r].data(), bytes, GpuCopy::kDeviceToDevice,
                             (*ranks)[r].stream));
    }
  }
  check(count(),
        [](int, std::size_t i) { return value_of(0, i) + value_of(1, i) + value_of(2, i); });
}

}  // namespace
}  // namespace rondo::test
