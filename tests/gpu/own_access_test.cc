// Buffers in memory that only its own device may touch, although the devices reach each other: what
// PyTorch's expandable segments and pools of cudaMallocAsync are unless somebody opens them.
#include <algorithm>

#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 3;

// Memory mapped by address; `users`: who may touch it.
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

class OwnAccess : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    int there = 0;
    EXPECT_EQ(gpu_api()->device_count(&there), kGpuSuccess);
    if (there < kRanks) GTEST_SKIP() << "too few GPUs";
    ranks = std::make_unique<DeviceRanks>(std::vector<int>{0, 1, 2});
    for (int r = 0; r < kRanks; ++r) {
      const std::size_t bytes = count() * kRanks * sizeof(int);
      ranks->use_device_of(r);
      in.emplace_back(bytes, r, std::vector<int>{r});
      out.emplace_back(bytes, r, std::vector<int>{r});
      std::vector<int> values(count() * kRanks);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(r, i);
      EXPECT_EQ(gpu_api()->copy(in[r].data(), values.data(), bytes, GpuCopy::kHostToDevice,
                                (*ranks)[r].stream),
                kGpuSuccess);
      EXPECT_EQ(gpu_api()->synchronize_stream((*ranks)[r].stream), kGpuSuccess);
    }
  }
  static std::size_t count() { return GetParam(); }
  template <class Call>
  void run(const Call& call) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) NCCL_OK(call(r, (*ranks)[r].comm, (*ranks)[r].stream));
    NCCL_OK(ncclGroupEnd());
  }
  // want(rank, i): of the first elements of what the rank received.
  template <class Want>
  void check(std::size_t elements, const Want& want) {
    for (int r = 0; r < kRanks; ++r) {
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
  std::vector<MappedBuffer> in, out;
};
INSTANTIATE_TEST_SUITE_P(Counts, OwnAccess, testing::Values(100, 20'000, 400'000));

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
    const ncclResult_t sent = ncclSend(in[r].data(), n, ncclInt32, (r + 1) % kRanks, comm, stream);
    if (sent != ncclSuccess) return sent;
    return ncclRecv(out[r].data(), n, ncclInt32, (r + kRanks - 1) % kRanks, comm, stream);
  });
  check(n, [](int r, std::size_t i) { return value_of((r + kRanks - 1) % kRanks, i); });
}

}  // namespace
}  // namespace rondo::test
