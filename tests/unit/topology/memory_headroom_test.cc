// SPDX-License-Identifier: Apache-2.0
// Free memory under the limits of cgroups, from the files of simulated machines.
#include "topology/memory_headroom.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/temporary_folder.h"

namespace rondo::topology {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

class MemoryHeadroom : public testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) { folder_.file(name, text); }
  void version2() {
    file("proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    file("proc/self/cgroup", "0::/job/task\n");
  }
  const test::TemporaryFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(MemoryHeadroom, IsUnlimitedWithoutAnyLimit) {
  EXPECT_EQ(memory_headroom(root_), kUnlimited);
  version2();
  file("sys/fs/cgroup/job/memory.max", "max\n");
  file("sys/fs/cgroup/job/memory.current", "5000\n");
  EXPECT_EQ(memory_headroom(root_), kUnlimited);
}

TEST_F(MemoryHeadroom, IsTheLeastOfAllGroupsAndCountsCachesAsFree) {
  version2();
  file("sys/fs/cgroup/job/task/memory.max", "max\n");
  file("sys/fs/cgroup/job/task/memory.current", "90000\n");
  file("sys/fs/cgroup/job/memory.max", "100000\n");
  file("sys/fs/cgroup/job/memory.current", "90000\n");
  EXPECT_EQ(memory_headroom(root_), 10000u);
  file("sys/fs/cgroup/job/memory.stat",
       "anon 60000\nfile 30000\ninactive_file 20000\nactive_file 500\nslab_reclaimable 7\n");
  EXPECT_EQ(memory_headroom(root_), 30507u);
  file("sys/fs/cgroup/job/memory.max", "80000\n");
  EXPECT_EQ(memory_headroom(root_), 20507u);
}

TEST_F(MemoryHeadroom, CountsSwapThatTheGroupMayUse) {
  version2();
  file("sys/fs/cgroup/job/memory.max", "100000\n");
  file("sys/fs/cgroup/job/memory.current", "100000\n");
  EXPECT_EQ(memory_headroom(root_), 0u);
  file("proc/meminfo", "MemTotal:  100 kB\nSwapFree:  2 kB\n");
  EXPECT_EQ(memory_headroom(root_), 2048u);
  file("sys/fs/cgroup/job/memory.swap.max", "1000\n");
  file("sys/fs/cgroup/job/memory.swap.current", "400\n");
  EXPECT_EQ(memory_headroom(root_), 600u);
}

TEST_F(MemoryHeadroom, KnowsVersion1) {
  file("proc/self/mountinfo", "41 1 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  file("proc/self/cgroup", "4:memory:/job\n");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  file("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(memory_headroom(root_), kUnlimited);
  file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n");
  file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400\n");
  file("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 30\n");
  EXPECT_EQ(memory_headroom(root_), 630u);
}

// One reading is valid for one second, and for requests of up to a sixteenth of what it found.
TEST_F(MemoryHeadroom, IsReadAnewBeforeMuchIsTakenAndAfterASecond) {
  constexpr std::int64_t kSoon = 5'000'000, kLater = 1'000'000'000 + kSoon;
  version2();
  file("sys/fs/cgroup/job/memory.max", "1600000\n");
  file("sys/fs/cgroup/job/memory.current", "0\n");
  HeadroomReadings readings(root_), late(root_);
  EXPECT_FALSE(readings.lacks_room_for(40'000, kSoon));
  EXPECT_FALSE(late.lacks_room_for(40'000, kSoon));
  file("sys/fs/cgroup/job/memory.current", "1599000\n");
  EXPECT_EQ(late.lacks_room_for(60'000, kLater), 1000u);
  EXPECT_FALSE(readings.lacks_room_for(60'000, kLater - 1));  // within a sixteenth of the first
                                                              // reading
  EXPECT_EQ(readings.lacks_room_for(2000, kLater - 1), 1000u);
  EXPECT_EQ(readings.lacks_room_for(1001, kLater - 1), 1000u);
  EXPECT_FALSE(readings.lacks_room_for(1000, kLater - 1));
}

}  // namespace
}  // namespace rondo::topology
