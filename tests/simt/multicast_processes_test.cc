// SPDX-License-Identifier: Apache-2.0
// Multicast objects that processes pass to each other: which process may bind when, and that
// accesses reach the memory of all of them.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "kernels/cuda/device_multicast.h"
#include "tests/simt/device_fixture.h"

namespace rondo::simt {
namespace {

constexpr std::size_t kBytes = 2 << 20;

// Shared by the two processes, from before the fork.
struct Board {
  std::atomic<int> step[2];
  int process, file;  // exported by the first process
};

// One of two processes, each with a device.
class Side {
 public:
  Side(Board& board, int process) : board_(board), process_(process) {
    EXPECT_CUDA(calls::set_device(process));
    EXPECT_CUDA(calls::free_memory(nullptr));  // makes the context current
  }
  // A process in which an assertion has failed ends here, and the test ends the other one.
  void meet() {
    if (testing::Test::HasFailure()) _exit(1);
    const int own = ++board_.step[process_];
    while (board_.step[1 - process_] < own) usleep(1000);
  }
  GpuAllocation object() {
    GpuAllocation made = 0;
    if (process_ == 0) {
      EXPECT_CUDA(calls::multicast_create(&made, kBytes, 2));
      board_.process = getpid();
      EXPECT_CUDA(calls::vmm_export(&board_.file, made));
    }
    meet();
    if (process_ == 0) return made;
    const std::string link = fmt::format("/proc/{}/fd/{}", board_.process, board_.file);
    const int file = open(link.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_CUDA(calls::vmm_import(&made, file));
    close(file);
    return made;
  }
  // Memory of its device, mapped in this process, and its allocation.
  float* memory(GpuAllocation* made) {
    EXPECT_CUDA(calls::vmm_create(made, kBytes, process_));
    return map(*made);
  }
  float* map(GpuAllocation allocation) {
    void* at = nullptr;
    EXPECT_CUDA(calls::vmm_reserve(&at, kBytes, 0));
    EXPECT_CUDA(calls::vmm_map(at, kBytes, allocation));
    EXPECT_CUDA(calls::vmm_allow(at, kBytes, process_));
    return static_cast<float*>(at);
  }

 private:
  Board& board_;
  const int process_;
};

// Runs body(side, process) in two processes; true if all expectations held in both. Once one ends
// otherwise, the other is killed.
template <class Body>
bool in_two_processes(const Body& body) {
  auto* const board = static_cast<Board*>(
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pid_t pids[2];
  for (int p = 0; p < 2; ++p) {
    pids[p] = fork();
    if (pids[p] != 0) continue;
    alarm(300);
    replace_platform({});
    Side side(*board, p);
    body(side, p);
    side.meet();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  bool well = true;
  for (int left = 2; left > 0; --left) {
    int status = 1;
    const pid_t ended = waitpid(0, &status, 0);
    const int process = ended == pids[0] ? 0 : 1;
    pids[process] = -1;
    if (status != 0 && well) ADD_FAILURE() << "process " << process << " failed: both were ended";
    well = well && status == 0;
    if (const pid_t other = pids[1 - process]; !well && other > 0) kill(other, SIGKILL);
  }
  munmap(board, sizeof(Board));
  return well;
}

TEST(MulticastBetweenProcesses, AddsAndStoresWhatAllHaveBound) {
  EXPECT_TRUE(in_two_processes([](Side& side, int process) {
    const GpuAllocation object = side.object();
    GpuAllocation allocation = 0;
    float* const own = side.memory(&allocation);
    EXPECT_CUDA(calls::multicast_add(object, process));
    side.meet();
    EXPECT_CUDA(calls::multicast_bind(object, 0, allocation, 0, kBytes));
    float* const all = side.map(object);
    const float mine[4] = {1.0f + static_cast<float>(process), 0, 0, 5};
    EXPECT_CUDA(calls::copy(own, mine, sizeof mine, GpuCopy::kHostToDevice, kLegacyStream));
    EXPECT_CUDA(calls::synchronize_device());
    side.meet();
    const auto add = [=] {
      auto* const at = reinterpret_cast<device::Vector*>(all);
      if (process == 0) device::store_all(at + 1, device::load_sum<DataType::kFloat32>(at));
    };
    EXPECT_CUDA(TestDevice::launch("add", {.threads = 1}, kLegacyStream, add));
    EXPECT_CUDA(calls::synchronize_device());
    side.meet();
    float got[8] = {};
    EXPECT_CUDA(calls::copy(got, own, sizeof got, GpuCopy::kDeviceToHost, kLegacyStream));
    EXPECT_CUDA(calls::synchronize_device());
    EXPECT_EQ(got[4], 3.0f);
    EXPECT_EQ(got[7], 10.0f);
  }));
}

TEST(MulticastBetweenProcesses, IsBoundAndMappedOnlyOnceAllDevicesAreAdded) {
  EXPECT_TRUE(in_two_processes([](Side& side, int process) {
    const GpuAllocation object = side.object();
    GpuAllocation allocation = 0;
    side.memory(&allocation);
    void* at = nullptr;
    EXPECT_CUDA(calls::vmm_reserve(&at, kBytes, 0));
    if (process == 0) {
      EXPECT_CUDA(calls::multicast_add(object, 0));
      EXPECT_EQ(calls::multicast_add(object, 0), kGpuInvalidValue);
      EXPECT_EQ(calls::multicast_bind(object, 0, allocation, 0, kBytes), kGpuInvalidValue);
      EXPECT_EQ(calls::vmm_map(at, kBytes, object), kGpuInvalidValue);
    }
    side.meet();
    if (process == 1) {
      EXPECT_CUDA(calls::multicast_add(object, 1));
    }
    side.meet();
    EXPECT_EQ(calls::multicast_add(object, 2), kGpuInvalidValue);
    EXPECT_CUDA(calls::multicast_bind(object, 0, allocation, 0, kBytes));
    EXPECT_EQ(calls::multicast_bind(object, 0, allocation, 0, kBytes), kGpuInvalidValue);
    EXPECT_EQ(calls::multicast_unbind(object, 1 - process, 0, kBytes), kGpuInvalidValue);
    EXPECT_CUDA(calls::multicast_unbind(object, process, 0, kBytes));
    EXPECT_CUDA(calls::multicast_bind(object, 0, allocation, 0, kBytes));
  }));
}

}  // namespace
}  // namespace rondo::simt
