// SPDX-License-Identifier: Apache-2.0
// Processes that share emulated devices: memory by IPC handles, time slices, and the kernel that
// spins on another process, which a real device would run for very long or without limit.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/simt/device_fixture.h"

namespace rondo::simt {
namespace {

using device::Scope;

// Shared by the processes of a test.
struct Board {
  std::atomic<int> opened;
  GpuIpcHandle handle;
  std::atomic<int> ended[2];
};

// How a process of TwoProcesses ends, and how run() does.
constexpr int kFine = 0, kViolation = 3, kWrong = 96, kNotOpened = 97, kLate = 98, kKilled = 99;

class TwoProcesses {
 public:
  explicit TwoProcesses(const Config& config) : config_(config) {
    board_ = static_cast<Board*>(
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~TwoProcesses() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    munmap(board_, sizeof(Board));
  }

  // Process 0 owns zeroed memory on device 0; process 1 uses `other_device` and has opened it. Runs
  // work(process, memory) in each; returns 0, or kViolation if either caused one. Once one ends
  // otherwise, the other is ended, too: it may wait for the first one without limit.
  template <class Work>
  int run(int other_device, const Work& work) {
    for (int i = 0; i < 2; ++i) {
      pids_[i] = fork();
      if (pids_[i] == 0) _exit(live(i, i == 0 ? 0 : other_device, work));
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    int left = 2;
    while (left > 0 && std::chrono::steady_clock::now() < deadline) {
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended <= 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      const int process = ended == pids_[0] ? 0 : 1;
      pids_[process] = 0;
      const int how = WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
      if (how != kFine && how != kViolation)
        ADD_FAILURE() << "process " << process << " ended with " << how;
      if (how != kFine) return how;
      --left;
    }
    return left == 0 ? kFine : kLate;
  }

 private:
  template <class Work>
  int live(int process, int device, const Work& work) {
    const ExpectViolations expected;
    replace_platform(config_);
    calls::set_device(device);
    void* memory = nullptr;
    if (process == 0) {
      calls::allocate(&memory, 4096);
      calls::fill(memory, 0, 4096, kLegacyStream);
      calls::synchronize_device();
      calls::ipc_export(&board_->handle, memory);
      board_->opened.store(1);
    } else {
      while (board_->opened.load() == 0) std::this_thread::yield();
      if (calls::ipc_open(&memory, board_->handle) != kGpuSuccess) return kNotOpened;
    }
    const bool good = work(process, static_cast<std::uint32_t*>(memory));
    for (const std::string& text : expected.texts()) std::fprintf(stderr, "%s\n", text.c_str());
    if (expected.saw(Violation::kForeignSpin)) return kViolation;
    if (!good || !expected.texts().empty()) return kWrong;
    board_->ended[process].store(1);  // the memory exists as long as its owner
    while (board_->ended[1 - process].load() == 0) std::this_thread::yield();
    return kFine;
  }

  const Config config_;
  Board* board_;
  pid_t pids_[2] = {0, 0};
};

// Kernels of both processes pass a number back and forth; returns true if all of them ended well.
bool ping_pong(int process, std::uint32_t* word, std::uint32_t rounds) {
  const auto me = static_cast<std::uint32_t>(process);
  GpuStream stream = nullptr;
  calls::create_stream(&stream, 0);
  const GpuError launched = TestDevice::launch("ping pong", {.threads = 1}, stream, [=] {
    for (std::uint32_t round = 0; round < rounds; ++round) {
      while (device::load_acquire<Scope::kSystem>(word) != 2 * round + me) device::spin();
      device::store_release<Scope::kSystem>(word, 2 * round + me + 1);
    }
  });
  return launched == kGpuSuccess && calls::synchronize_stream(stream) == kGpuSuccess;
}

Config two_devices(int slices) {
  Config config;
  config.devices = 2;
  config.slices = slices;
  return config;
}

TEST(SharedDevice, KernelThatSpinsOnAnotherProcessIsSeen) {
  TwoProcesses processes(two_devices(2));
  EXPECT_EQ(processes.run(0, [](int p, std::uint32_t* word) { return ping_pong(p, word, 100); }),
            kViolation);
}
TEST(SharedDevice, KernelsOfTwoDevicesMaySpinOnEachOther) {
  TwoProcesses processes(two_devices(2));
  EXPECT_EQ(processes.run(1, [](int p, std::uint32_t* word) { return ping_pong(p, word, 100); }),
            kFine);
}

// The same numbers, passed by stream memory operations instead.
TEST(SharedDevice, ProcessesTakeTurnsByStreamMemoryOperations) {
  TwoProcesses processes(two_devices(0));
  const int result = processes.run(0, [](int process, std::uint32_t* word) {
    constexpr std::uint32_t kRounds = 30;
    const auto me = static_cast<std::uint32_t>(process);
    auto* const sum = word + 1;
    GpuStream stream = nullptr;
    calls::create_stream(&stream, 0);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      calls::stream_wait32(stream, word, 2 * round + me, GpuWait::kEqual);
      TestDevice::launch("add", {.threads = 1}, stream,
                         [=] { device::store(sum, device::load(sum) + 1); });
      calls::stream_write32(stream, word, 2 * round + me + 1);
    }
    if (calls::synchronize_stream(stream) != kGpuSuccess) return false;
    if (process == 0) return true;  // the last one of all belongs to process 1
    std::uint32_t total = 0;
    calls::copy_and_wait(&total, sum, sizeof total, GpuCopy::kAny);
    return total == 2 * kRounds;
  });
  EXPECT_EQ(result, kFine);
}

TEST(SharedDevice, ChildOfAForkCannotGoOn) {
  replace_platform(two_devices(0));
  void* memory = nullptr;
  ASSERT_CUDA(calls::allocate(&memory, 16));
  const pid_t child = fork();
  if (child == 0) _exit(calls::allocate(&memory, 16));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kInitializationError);
  EXPECT_CUDA(calls::free_memory(memory));
}

TEST(SharedDevice, HandlesOfItsOwnAreRefused) {
  replace_platform(two_devices(0));
  void *memory = nullptr, *opened = nullptr;
  GpuIpcHandle handle;
  ASSERT_CUDA(calls::allocate(&memory, 16));
  ASSERT_CUDA(calls::ipc_export(&handle, memory));
  EXPECT_NE(calls::ipc_open(&opened, handle), kGpuSuccess);
}

}  // namespace
}  // namespace rondo::simt
