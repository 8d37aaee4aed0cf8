// SPDX-License-Identifier: Apache-2.0
// Reads of another process's memory: all bytes, or the reason.
#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <vector>

namespace rondo {
namespace {

// A forked child, which has a copy of this process's memory at the time of the fork.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  ProcessMemory memory() const {
    return {pid_, reinterpret_cast<std::uintptr_t>(&this_process()), this_process()};
  }

 private:
  pid_t pid_;
};

std::uint64_t address_of(const std::vector<std::byte>& data) {
  return reinterpret_cast<std::uintptr_t>(data.data());
}

TEST(ProcessMemory, ReadsWhatTheOtherProcessHasThere) {
  std::vector<std::byte> data(3 << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i * 7 + i / 4096);
  const std::vector<std::byte> there = data;
  (void)this_process();
  const Child child;
  std::fill(data.begin(), data.end(), std::byte{0});
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4097}, std::size_t{65536}, std::size_t{2} << 20})
    for (const std::size_t at : {std::size_t{0}, std::size_t{4095}, std::size_t{70'001}}) {
      std::vector<std::byte> read(bytes + 1);
      ASSERT_EQ(child.memory().read(read.data(), address_of(data) + at, bytes), 0);
      EXPECT_TRUE(std::equal(read.begin(), read.end() - 1, there.begin() + std::ptrdiff_t(at)));
      EXPECT_EQ(read.back(), std::byte{0}) << "a byte too many";
    }
}

// Maps one file again and again: 2 GiB of addresses need little memory.
class RepeatedPages {
 public:
  static constexpr std::size_t kFile = std::size_t{16} << 20;
  static constexpr std::size_t kTimes = 129;  // 2 GiB, and 16 MiB for what is beyond
  RepeatedPages() {
    at_ = static_cast<std::byte*>(mmap(nullptr, kTimes * kFile, PROT_NONE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~RepeatedPages() { munmap(at_, kTimes * kFile); }
  RepeatedPages(const RepeatedPages&) = delete;
  RepeatedPages& operator=(const RepeatedPages&) = delete;

  bool map(std::size_t from, std::size_t to) {
    const int file = memfd_create("repeated", MFD_CLOEXEC);
    bool mapped = at_ != MAP_FAILED && ftruncate(file, kFile) == 0;
    for (std::size_t i = from; mapped && i < to; ++i)
      mapped = mmap(at_ + i * kFile, kFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                    0) != MAP_FAILED;
    close(file);
    return mapped;
  }
  std::byte* at(std::size_t time) { return at_ + time * kFile; }

 private:
  std::byte* at_ = nullptr;
};

// The kernel ends one read just below 2 GiB. The last two times of the target have a file of their
// own, which only the end of the read fills.
TEST(ProcessMemory, ReadsMoreThanTheKernelDoesInOneCall) {
  constexpr std::size_t kBytes = (std::size_t{2} << 30) + 5;
  RepeatedPages source, target;
  ASSERT_TRUE(source.map(0, source.kTimes) && target.map(0, 127) && target.map(127, 129));
  for (std::size_t i = 0; i < source.kFile; ++i) source.at(0)[i] = std::byte(i * 7 + i / 4096 + 1);
  (void)this_process();
  const Child child;
  ASSERT_EQ(
      child.memory().read(target.at(0), reinterpret_cast<std::uintptr_t>(source.at(0)), kBytes), 0);
  EXPECT_TRUE(std::equal(source.at(0), source.at(1), target.at(0)));
  EXPECT_TRUE(std::equal(source.at(0), source.at(1), target.at(127)));
}

TEST(ProcessMemory, RefusesAnotherProcessWithThePid) {
  std::vector<std::byte> data(4096), read(4096);
  (void)this_process();
  const Child child;
  ProcessMemory other = child.memory();
  ++other.id[1];
  EXPECT_EQ(other.read(read.data(), address_of(data), data.size()), ESRCH);
}

TEST(ProcessMemory, ReportsWhyItReadsNothing) {
  std::vector<std::byte> data(4096), read(64 << 10);
  constexpr std::size_t kMapped = 64 << 10;
  void* const mapped =
      mmap(nullptr, 2 * kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto end_of_memory = reinterpret_cast<std::uintptr_t>(mapped) + kMapped;
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(end_of_memory), kMapped, PROT_NONE), 0);
  (void)this_process();
  Child child;
  const ProcessMemory memory = child.memory();
  EXPECT_EQ(memory.read(read.data(), 0, 1), EFAULT);
  EXPECT_EQ(memory.read(read.data(), end_of_memory - 8192, 8192), 0);
  EXPECT_EQ(memory.read(read.data(), end_of_memory - 4096, 8192), EFAULT);
  child.end();
  EXPECT_EQ(memory.read(read.data(), address_of(data), data.size()), ESRCH);
  munmap(mapped, 2 * kMapped);
}

}  // namespace
}  // namespace rondo
