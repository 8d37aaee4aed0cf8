// SPDX-License-Identifier: Apache-2.0
// Where ranks run, which pointers they accept, and the error they return if they cannot.
#include <cstdlib>
#include <string>

#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

using testing::Test;

bool contains(const char* text, const char* part) {
  return std::string(text).find(part) != std::string::npos;
}

TEST(DeviceBinding, NamesTheDevice) {
  DeviceRanks ranks(2);
  int device = -1;
  NCCL_OK(ncclCommCuDevice(ranks[1].comm, &device));
  EXPECT_EQ(device, 0);
}

TEST(DeviceBinding, TakesPinnedAndManagedMemory) {
  DeviceRanks ranks(2);
  float *pinned = nullptr, *managed = nullptr;
  GPU_OK(gpu_api()->allocate_host(reinterpret_cast<void**>(&pinned), 64, kHostPortable));
  for (int i = 0; i < 16; ++i) pinned[i] = static_cast<float>(i);
  GPU_OK(gpu_api()->allocate_managed(reinterpret_cast<void**>(&managed), 64));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r)
    NCCL_OK(ncclAllReduce(pinned, r == 0 ? managed : managed + 8, 8, ncclFloat32, ncclSum,
                          ranks[r].comm, ranks[r].stream));
  NCCL_OK(ncclGroupEnd());
  ranks.synchronize();
  float seen[16];
  GPU_OK(gpu_api()->copy(seen, managed, sizeof(seen), GpuCopy::kAny, ranks[0].stream));
  GPU_OK(gpu_api()->synchronize_stream(ranks[0].stream));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(seen[i], 2.0f * (i % 8));
  GPU_OK(gpu_api()->free_host(pinned));
  GPU_OK(gpu_api()->free_memory(managed));
}

TEST(DeviceBinding, RefusesHostMemoryThatTheDeviceCannotReach) {
  int reaches = 0;
  GPU_OK(gpu_api()->attribute(&reaches, GpuAttribute::kPageableMemoryAccess, 0));
  if (reaches != 0) GTEST_SKIP() << "this device reaches all host memory";
  std::vector<float> host(16);
  DeviceBuffer device(64, 0);
  const auto refused = [](ncclResult_t result, const char* buffer) {
    EXPECT_EQ(result, ncclInvalidArgument);
    EXPECT_TRUE(contains(ncclGetLastError(nullptr), buffer)) << ncclGetLastError(nullptr);
    EXPECT_TRUE(contains(ncclGetLastError(nullptr), "cudaMalloc")) << ncclGetLastError(nullptr);
  };
  const auto sum = [](NcclRank& rank, const void* from, void* to) {
    return ncclAllReduce(from, to, 16, ncclFloat32, ncclSum, rank.comm, rank.stream);
  };
  DeviceRanks one(1), two(2);
  refused(sum(one[0], host.data(), device.data()), "sendbuff");
  refused(sum(one[0], device.data(), host.data()), "recvbuff");
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r) NCCL_OK(sum(two[r], device.data(), host.data()));
  refused(ncclGroupEnd(), "recvbuff");
  // Neither has ended its communicator.
  NCCL_OK(sum(one[0], device.data(), device.data()));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r) NCCL_OK(sum(two[r], device.data(), device.data()));
  NCCL_OK(ncclGroupEnd());
  two.synchronize();
}

// In place it makes no driver call, unless checks are requested.
TEST(DeviceBinding, OneRankChecksItsBuffersIfAsked) {
  std::vector<float> host(16);
  for (const bool checks : {false, true}) {
    setenv("NCCL_CHECK_MODE", checks ? "DEBUG_LOCAL" : "DEFAULT", 1);
    DeviceRanks one(1);
    unsetenv("NCCL_CHECK_MODE");
    const ncclResult_t result =
        ncclBroadcast(host.data(), host.data(), 16, ncclFloat32, 0, one[0].comm, one[0].stream);
    EXPECT_EQ(result, checks ? ncclInvalidArgument : ncclSuccess);
    DeviceBuffer device(64, 0);
    NCCL_OK(ncclBroadcast(device.data(), device.data(), 16, ncclFloat32, 0, one[0].comm,
                          one[0].stream));
  }
}

// Its calls are copies by the driver.
TEST(DeviceBinding, OneRankTakesAllMemoryThatCudaCopies) {
  DeviceRanks ranks(1);
  int devices = 0;
  GPU_OK(gpu_api()->device_count(&devices));
  void *pinned = nullptr, *managed = nullptr, *other = nullptr;
  GPU_OK(gpu_api()->allocate_host(&pinned, 64, kHostPortable));
  GPU_OK(gpu_api()->allocate_managed(&managed, 64));
  GPU_OK(gpu_api()->set_device(devices - 1));
  GPU_OK(gpu_api()->allocate(&other, 64));
  GPU_OK(gpu_api()->set_device(0));
  alignas(64) std::byte registered[64] = {};
  GPU_OK(gpu_api()->register_host(registered, 64, kHostPortable | kHostMapped));
  for (int i = 0; i < 64; ++i) static_cast<std::byte*>(pinned)[i] = static_cast<std::byte>(i);
  const auto gather = [&](const void* from, void* to) {
    NCCL_OK(ncclAllGather(from, to, 64, ncclUint8, ranks[0].comm, ranks[0].stream));
    ranks.synchronize();
  };
  gather(pinned, other);
  gather(other, managed);
  gather(managed, registered);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(registered[i], static_cast<std::byte>(i));
  GPU_OK(gpu_api()->unregister_host(registered));
  GPU_OK(gpu_api()->free_host(pinned));
  GPU_OK(gpu_api()->free_memory(managed));
  GPU_OK(gpu_api()->free_memory(other));
}

TEST(DeviceBinding, KeepsTheHostEngineWhereAskedTo) {
  setenv("RONDO_DEVICE", "host", 1);
  ncclComm_t comms[2];
  NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
  unsetenv("RONDO_DEVICE");
  int device = 0;
  NCCL_OK(ncclCommCuDevice(comms[0], &device));
  EXPECT_EQ(device, -1);
  float in[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}}, out[2][4] = {};
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r)
    NCCL_OK(ncclAllReduce(in[r], out[r], 4, ncclFloat32, ncclSum, comms[r], nullptr));
  NCCL_OK(ncclGroupEnd());
  EXPECT_EQ(out[0][3], 44.0f);
  EXPECT_EQ(out[1][0], 11.0f);

  DeviceBuffer memory(64, 0);
  EXPECT_EQ(ncclBroadcast(memory.data(), memory.data(), 4, ncclFloat32, 0, comms[0], nullptr),
            ncclInvalidArgument);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), "CUDA device 0")) << ncclGetLastError(nullptr);
  for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
}

TEST(DeviceBinding, RestoresTheCurrentDevice) {
  int devices = 0;
  GPU_OK(gpu_api()->device_count(&devices));
  if (devices < 2) GTEST_SKIP() << "one device only";
  DeviceRanks ranks(2);
  DeviceBuffer a(64, 0), b(64, 0);
  GPU_OK(gpu_api()->set_device(1));
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclBroadcast(a.data(), a.data(), 4, ncclFloat32, 0, ranks[0].comm, ranks[0].stream));
  NCCL_OK(ncclBroadcast(b.data(), b.data(), 4, ncclFloat32, 0, ranks[1].comm, ranks[1].stream));
  NCCL_OK(ncclGroupEnd());
  int device = -1;
  GPU_OK(gpu_api()->get_device(&device));
  EXPECT_EQ(device, 1);
  GPU_OK(gpu_api()->set_device(0));
  ranks.synchronize();
}

TEST(DeviceBinding, AllocatesMemoryOnTheDevice) {
  void* memory = nullptr;
  NCCL_OK(ncclMemAlloc(&memory, 1000));
  GpuPointer info;
  GPU_OK(gpu_api()->pointer_info(&info, memory));
  EXPECT_EQ(info.kind, GpuMemory::kDevice);
  EXPECT_EQ(info.device, 0);
  NCCL_OK(ncclMemFree(memory));
}

// Every rank's kernel reads all inputs, so mapped memory has to be accessible to the peers.
TEST(DeviceBinding, AllocatedMemoryIsReachedFromOtherDevices) {
  int devices = 0;
  GPU_OK(gpu_api()->device_count(&devices));
  if (devices < 2) GTEST_SKIP() << "one device";
  const int both[] = {0, 1};
  ncclComm_t comms[2] = {};
  GpuStream streams[2] = {};
  void* memory[2] = {};
  NCCL_OK(ncclCommInitAll(comms, 2, both));
  for (int r = 0; r < 2; ++r) {
    GPU_OK(gpu_api()->set_device(r));
    GPU_OK(gpu_api()->create_stream(&streams[r], 0));
    NCCL_OK(ncclMemAlloc(&memory[r], 4096));
    GPU_OK(gpu_api()->fill(memory[r], r + 1, 4096, streams[r]));
  }
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r)
    NCCL_OK(ncclAllReduce(memory[r], memory[r], 4096, ncclUint8, ncclSum, comms[r], streams[r]));
  NCCL_OK(ncclGroupEnd());
  for (int r = 0; r < 2; ++r) {
    GPU_OK(gpu_api()->set_device(r));
    unsigned char first = 0;
    GPU_OK(gpu_api()->copy(&first, memory[r], 1, GpuCopy::kDeviceToHost, streams[r]));
    GPU_OK(gpu_api()->synchronize_stream(streams[r]));
    EXPECT_EQ(first, 3);
  }
  for (int r = 0; r < 2; ++r) {
    GPU_OK(gpu_api()->set_device(r));
    NCCL_OK(ncclMemFree(memory[r]));
    NCCL_OK(ncclCommDestroy(comms[r]));
    GPU_OK(gpu_api()->destroy_stream(streams[r]));
  }
  GPU_OK(gpu_api()->set_device(0));
}

TEST(DeviceBinding, NamesBothCallsThatDoNotMatch) {
  DeviceRanks ranks(2);
  DeviceBuffer a(64, 0), b(64, 0);
  NCCL_OK(ncclGroupStart());
  NCCL_OK(
      ncclAllReduce(a.data(), a.data(), 4, ncclFloat32, ncclSum, ranks[0].comm, ranks[0].stream));
  NCCL_OK(
      ncclAllReduce(b.data(), b.data(), 8, ncclFloat32, ncclSum, ranks[1].comm, ranks[1].stream));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  const std::string text = ncclGetLastError(ranks[0].comm);
  EXPECT_TRUE(contains(text.c_str(), "count 4")) << text;
  EXPECT_TRUE(contains(text.c_str(), "count 8")) << text;
}

}  // namespace
}  // namespace rondo::test
