// SPDX-License-Identifier: Apache-2.0
// Kernels of NCCL's device API on the emulated GPU, compiled against api/nccl_device.h, and windows
// for them.
#pragma once

#define RONDO_DEVICE_PRIMITIVES "tests/simt/device_primitives.h"
#include "api/nccl_device.h"
#include "tests/gpu/process_bodies.h"
#include "tests/simt/device_fixture.h"

namespace rondo::test {

// Each thread writes a value, and adds those of all ranks of the Lsa team between two barriers.
struct WindowSums {
  ncclDevComm comm;
  ncclWindow_t window;
  std::uint32_t round;
  std::size_t sums_at;    // in the window
  bool multimem = false;  // of the barrier

  static std::uint32_t value(int rank, std::uint32_t round, unsigned i) {
    return static_cast<std::uint32_t>(rank) * 100'000 + round * 1000 + i;
  }
  void operator()() const {
    const unsigned cta = device::cta_index(), threads = device::thread_count();
    const unsigned me = cta * threads + device::thread_index();
    const unsigned next = cta * threads + (device::thread_index() + 1) % threads;
    ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), cta,
                                               multimem);
    const auto words = [](void* at) { return static_cast<std::uint32_t*>(at); };
    device::store(words(ncclGetLocalPointer(window, 0)) + me, value(comm.rank, round, me));
    barrier.sync(ncclCoopCta(), ::cuda::memory_order_acq_rel);
    std::uint32_t sum = 0;
    for (int peer = 0; peer < comm.lsaSize; ++peer)
      sum += device::load((ncclSymPtr<std::uint32_t>(window) + next).lsaPtr(peer));
    device::store(words(ncclGetLocalPointer(window, sums_at)) + next, sum);
    barrier.sync(ncclCoopCta(), ::cuda::memory_order_acq_rel);
  }
};

// A window of a rank; from ncclMemAlloc unless it is `plain`; `shift` bytes off.
class ApiWindow {
 public:
  static constexpr unsigned kCtas = 2, kThreads = 64, kValues = kCtas * kThreads;
  static constexpr std::size_t kHalf = kValues * sizeof(std::uint32_t);

  explicit ApiWindow(NcclRank& seat, bool plain = false, std::size_t shift = 0,
                     int flags = NCCL_WIN_COLL_SYMMETRIC)
      : seat_(seat), memory_(2 * kHalf, shift, !plain) {
    memory_.put({}, 0, seat.stream);
    EXPECT_EQ(ncclCommWindowRegister(seat.comm, memory_.data(), 2 * kHalf, &handle_, flags),
              ncclSuccess)
        << ncclGetLastError(seat.comm);
  }
  ~ApiWindow() {
    if (seat_.comm != nullptr && handle_ != nullptr) deregister();
  }
  ApiWindow(const ApiWindow&) = delete;
  ApiWindow& operator=(const ApiWindow&) = delete;

  void deregister() {
    EXPECT_EQ(ncclCommWindowDeregister(seat_.comm, handle_), ncclSuccess);
    handle_ = nullptr;
  }
  ncclWindow_t handle() const { return handle_; }
  // The caller deregisters it.
  ncclWindow_t release() { return std::exchange(handle_, nullptr); }
  // What kernels read of it.
  ncclWindow_vidmem record() const {
    ncclWindow_vidmem record;
    std::memset(&record, 0xee, sizeof(record));
    EXPECT_EQ(
        gpu_api()->copy(&record, handle_, sizeof(record), GpuCopy::kDeviceToHost, seat_.stream),
        kGpuSuccess);
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    return record;
  }
  std::byte* data() const { return memory_.data(); }
  // Writes this rank's number to its begin, and reads whose window begins at an address.
  void put_rank() {
    Bytes number(sizeof(int));
    std::memcpy(number.data(), &seat_.rank, number.size());
    memory_.put(number, 0, seat_.stream);
  }
  int rank_at(const void* begin) const {
    int found = -1;
    EXPECT_EQ(gpu_api()->copy(&found, begin, sizeof(found), GpuCopy::kDeviceToHost, seat_.stream),
              kGpuSuccess);
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    return found;
  }

  void launch(const ncclDevComm& comm, std::uint32_t round, bool multimem = false) {
    EXPECT_EQ(
        simt::TestDevice::launch("window_sums", {.ctas = kCtas, .threads = kThreads}, seat_.stream,
                                 WindowSums{comm, handle_, round, kHalf, multimem}),
        kGpuSuccess);
  }
  void check(std::uint32_t round, int first, int ranks) {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
    for (unsigned i = 0; i < kValues; ++i) {
      std::uint32_t want = 0, got = 0;
      for (int r = first; r < first + ranks; ++r) want += WindowSums::value(r, round, i);
      std::memcpy(&got, memory_.host() + kHalf + i * sizeof(got), sizeof(got));
      ASSERT_EQ(got, want) << "element " << i << " of rank " << seat_.rank;
    }
  }
  void sum(const ncclDevComm& comm, std::uint32_t round, bool multimem = false) {
    launch(comm, round, multimem);
    check(round, seat_.rank - comm.lsaRank, comm.lsaSize);
  }

 private:
  NcclRank& seat_;
  DeviceBuffer memory_;
  ncclWindow_t handle_ = nullptr;
};

inline ncclDevCommRequirements barriers_wanted(int count = ApiWindow::kCtas) {
  ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  wanted.lsaBarrierCount = count;
  return wanted;
}

inline std::uint64_t device_bytes(const NcclRank& seat) {
  std::uint64_t bytes = 0;
  EXPECT_EQ(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &bytes), ncclSuccess);
  return bytes;
}

}  // namespace rondo::test
