// SPDX-License-Identifier: Apache-2.0
// GPU memory that one process exports and another imports.
#include "transport/memory/memory_registry.h"

#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"
#include "transport/cuda/deferred_free.h"

namespace rondo::test {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::size_t kEndedCount = 100'000;

// Plain data goes through one socket pair, files through another; both exist before the fork.
struct Channel {
  Channel() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, plain), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, files), 0);
  }
  ~Channel() {
    for (const int fd : {plain[0], plain[1], files[0], files[1]}) close(fd);
  }
  void give(const void* pointer) const {
    auto handle = gpu::memory_registry().export_range(pointer, 1);
    ASSERT_TRUE(handle.ok()) << handle.error().text;
    ASSERT_EQ(write(plain[0], &handle->plain, sizeof(handle->plain)),
              static_cast<ssize_t>(sizeof(handle->plain)));
    EXPECT_TRUE(gpu::send_files(files[0], {&*handle}, deadline()).ok());
  }
  Result<gpu::ImportedMemory> take() const {
    gpu::PlainHandle received;
    if (read(plain[1], &received, sizeof(received)) != sizeof(received))
      return fail(StatusCode::kRemoteError, "no handle");
    RONDO_TRY(const auto handles, gpu::receive_handles(files[1], {&received}, deadline()));
    const int device = 0;
    return gpu::memory_registry().import_memory(handles[0], {&device, 1});
  }
  static net::Deadline deadline() {
    return net::Deadline::of(std::chrono::seconds(static_cast<int>(kLongestWait)));
  }

  int plain[2], files[2];
};

// One handle is of one allocation: a peer that mapped it would access what lies behind it, too.
TEST(MemoryRegistry, SharesNoRangeOfSeveralAllocations) {
  run_job(as_processes(1, Gpus::kOne), [](NcclRank&) {
    const GpuApi& api = *gpu_api();
    std::size_t grain = 0;
    GPU_OK(api.vmm_granularity(&grain, 0));
    void* at = nullptr;
    GPU_OK(api.vmm_reserve(&at, 2 * grain, 0));
    auto* const begin = static_cast<std::byte*>(at);
    for (std::byte* const one : {begin, begin + grain}) {
      GpuAllocation memory = 0;
      GPU_OK(api.vmm_create(&memory, grain, 0));
      GPU_OK(api.vmm_map(one, grain, memory));
      GPU_OK(api.vmm_allow(one, grain, 0));
      GPU_OK(api.vmm_release(memory));
    }
    EXPECT_TRUE(gpu::memory_registry().export_range(begin + grain / 2, grain / 2).ok());
    EXPECT_TRUE(gpu::memory_registry().export_range(begin + grain, grain).ok());
    const auto both = gpu::memory_registry().export_range(begin + grain / 2, grain);
    ASSERT_FALSE(both.ok());
    EXPECT_NE(both.error().text.find("in several allocations"), std::string::npos)
        << both.error().text;
    for (std::byte* const one : {begin, begin + grain}) GPU_OK(api.vmm_unmap(one, grain));
    GPU_OK(api.vmm_unreserve(at, 2 * grain));
  });
}

TEST(MemoryRegistry, MapsABlockOnceWhileItIsHeldAndAnewAfterIt) {
  const Channel channel;
  run_job(as_processes(2, Gpus::kOne), [&](NcclRank& seat) {
    if (seat.rank == 0) {
      DeviceBuffer first(kBlockBytes, 0, true), second(kBlockBytes, 0, true), plain(kBlockBytes, 0);
      for (int i = 0; i < 3; ++i) channel.give(first.data());
      channel.give(second.data());
      for (int i = 0; i < 2; ++i) channel.give(plain.data());
      char received = 0;
      EXPECT_EQ(read(channel.plain[0], &received, 1), 1);
      return;
    }
    auto one = channel.take(), same = channel.take();
    ASSERT_TRUE(one.ok() && same.ok());
    EXPECT_EQ(one->get(), same->get());
    const std::weak_ptr<std::byte> mapped = *one;
    one->reset();
    EXPECT_FALSE(mapped.expired());
    same->reset();
    EXPECT_TRUE(mapped.expired());
    auto anew = channel.take(), other = channel.take();
    ASSERT_TRUE(anew.ok() && other.ok());
    EXPECT_NE(anew->get(), other->get());
    // Memory that is in no registry has no number by which it could be recognized.
    const auto unknown = channel.take();
    ASSERT_TRUE(unknown.ok()) << unknown.error().text;
    EXPECT_EQ(unknown->use_count(), 1);
    if (const auto again = channel.take(); again.ok()) {
      EXPECT_EQ(again->use_count(), 1);
    }
    EXPECT_EQ(write(channel.plain[1], "", 1), 1);
  });
}

// Properties of memory known without a query, from its beginning to its announced end.
TEST(MemoryRegistry, KnowsMemoryUntilItsEnd) {
  run_job(as_processes(1, Gpus::kOne), [](NcclRank&) {
    gpu::MemoryRegistry& all = gpu::memory_registry();
    const auto driver_agrees = [&](const std::byte* at) {
      const auto known = all.known_device(at);
      GpuPointer info;
      return known && gpu_api()->pointer_info(&info, at) == kGpuSuccess && *known == info.device;
    };
    DeviceBuffer plain(kBlockBytes, 0);
    EXPECT_FALSE(all.known_device(plain.data()));
    const std::uint64_t whole = all.add(plain.data(), kBlockBytes);
    const std::uint64_t half = all.add(plain.data(), kBlockBytes / 2);
    EXPECT_TRUE(driver_agrees(plain.data()));
    EXPECT_TRUE(driver_agrees(plain.data() + kBlockBytes - 1));
    EXPECT_FALSE(all.known_device(plain.data() + kBlockBytes));
    EXPECT_FALSE(all.known_device(plain.data() - 1));
    all.remove(half);
    EXPECT_TRUE(driver_agrees(plain.data()));
    all.remove(whole);
    EXPECT_FALSE(all.known_device(plain.data()));

    const std::uint64_t beyond = all.add(plain.data(), 64 * kBlockBytes);  // ends elsewhere
    EXPECT_FALSE(all.known_device(plain.data()));
    all.remove(beyond);
    Bytes host(kBlockBytes);
    const std::uint64_t of_host = all.add(host.data(), kBlockBytes);
    EXPECT_FALSE(all.known_device(host.data()));
    all.remove(of_host);

    const std::byte* freed = nullptr;
    {
      const DeviceBuffer ours(kBlockBytes, 0, true);
      EXPECT_TRUE(driver_agrees(ours.data()));
      freed = ours.data();
    }
    EXPECT_FALSE(all.known_device(freed));
  });
}

// ---- memory that ends while a process that maps it is busy with another communicator's calls ----

#ifdef RONDO_SIMT
// Number of mappings of device memory of a process on the emulated GPU.
int mappings_of(pid_t process) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("rondo-simt") != std::string::npos) ++found;
  return found;
}

// Two processes on one GPU. Rank 0's launches the kernels, and so maps the memory of rank 1.
class Pair {
 public:
  explicit Pair(NcclRank& seat) : seat_(seat) {
    EXPECT_EQ(ncclCommSplit(seat.comm, 0, seat.rank, &other_, nullptr), ncclSuccess);
    EXPECT_EQ(gpu_api()->create_stream(&stream_, 0), kGpuSuccess);
  }
  ~Pair() {
    EXPECT_EQ(gpu_api()->synchronize_stream(stream_), kGpuSuccess);
    EXPECT_EQ(ncclCommDestroy(other_), ncclSuccess);
    EXPECT_EQ(gpu_api()->destroy_stream(stream_), kGpuSuccess);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  bool meet() const { return seat_.board.meet(); }
  GpuStream stream() const { return stream_; }  // of the other communicator
  void sum(DeviceBuffer& buffer) const {
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kEndedCount, ncclFloat32, ncclSum,
                          seat_.comm, seat_.stream));
    GPU_OK(gpu_api()->synchronize_stream(seat_.stream));
  }
  void enqueue_other(DeviceBuffer& buffer) const {
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kEndedCount, ncclFloat32, ncclSum, other_,
                          stream_));
  }

 private:
  NcclRank& seat_;
  ncclComm_t other_ = nullptr;
  GpuStream stream_ = nullptr;
};

TEST(EndedMemory, IsUnmappedWhileTheProcessIsBusyWithOtherWork) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    const Pair pair(seat);
    DeviceBuffer own(kEndedCount * sizeof(float), 0, true);
    std::optional<DeviceBuffer> ends(std::in_place, kEndedCount * sizeof(float), 0, true);
    pair.enqueue_other(own);
    GPU_OK(gpu_api()->synchronize_stream(pair.stream()));
    pair.sum(*ends);
    ASSERT_TRUE(pair.meet());
    const int mapped = mappings_of(getpid());
    if (seat.rank == 0) pair.enqueue_other(own);
    ASSERT_TRUE(pair.meet());
    if (seat.rank == 1) ends.reset();
    ASSERT_TRUE(pair.meet());
    if (seat.rank == 0) {
      EXPECT_TRUE(wait_until([&] { return mappings_of(getpid()) < mapped; }));
      EXPECT_EQ(gpu_api()->query_stream(pair.stream()), kGpuNotReady);
      EXPECT_EQ(gpu::deferred_frees(), 0u);
    }
    ASSERT_TRUE(pair.meet());
    if (seat.rank == 1) pair.enqueue_other(own);
  });
}

// The owner goes on once the handle is closed, or knows that it is not.
TEST(EndedMemory, OfAnIpcHandleIsClosedBeforeItsOwnerGoesOn) {
  const RankLogs logs;
  run_job(as_processes(2, Gpus::kOne), [&](NcclRank& seat) {
    logs.use(seat.rank);
    const Pair pair(seat);
    DeviceBuffer own(kEndedCount * sizeof(float), 0), ends(kEndedCount * sizeof(float), 0);
    void* handle = nullptr;
    NCCL_OK(ncclCommRegister(seat.comm, ends.base(), ends.size(), &handle));
    pair.enqueue_other(own);
    GPU_OK(gpu_api()->synchronize_stream(pair.stream()));
    pair.sum(ends);
    seat.mine().value = static_cast<std::uint64_t>(getpid());
    void* word = nullptr;
    void* at = nullptr;
    GPU_OK(gpu_api()->allocate_host(&word, sizeof(std::uint32_t), kHostPortable | kHostMapped));
    *static_cast<std::uint32_t*>(word) = 0;
    GPU_OK(gpu_api()->host_device_pointer(&at, word));
    if (seat.rank == 0) {
      GPU_OK(gpu_api()->stream_wait32(pair.stream(), at, 1, GpuWait::kGreaterOrEqual));
    }
    pair.enqueue_other(own);
    ASSERT_TRUE(pair.meet());
    if (seat.rank == 0) {
      EXPECT_TRUE(wait_until([] { return gpu::deferred_frees() > 0; }));
      __atomic_store_n(static_cast<std::uint32_t*>(word), 1u, __ATOMIC_RELEASE);
      EXPECT_TRUE(wait_until([] { return gpu::deferred_frees() == 0; }));
    } else {
      const auto leader = static_cast<pid_t>(seat.board.seats[0].value.load());
      const int mapped = mappings_of(leader);
      NCCL_OK(ncclCommDeregister(seat.comm, handle));
      std::string line;
      EXPECT_TRUE(mappings_of(leader) < mapped ||
                  logs.count(1, "still maps it by CUDA IPC", &line) == 1);
    }
    GPU_OK(gpu_api()->synchronize_stream(pair.stream()));
    ASSERT_TRUE(pair.meet());
    if (seat.rank == 0) {
      NCCL_OK(ncclCommDeregister(seat.comm, handle));
    }
    GPU_OK(gpu_api()->free_host(word));
  });
}
#endif

}  // namespace
}  // namespace rondo::test
