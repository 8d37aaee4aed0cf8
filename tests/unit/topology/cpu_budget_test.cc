// SPDX-License-Identifier: Apache-2.0
// Usable cores, from affinity masks and from cgroup files of simulated machines.
#include "topology/cpu_budget.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace rondo::topology {
namespace {

class CgroupTest : public ::testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) { folder_.file(name, text); }
  const test::TemporaryFolder folder_;
  const std::string root_ = folder_.path();
};

constexpr const char* kV2Mount =
    "22 1 0:21 / /proc rw - proc proc rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_F(CgroupTest, WithoutAnyFileThereIsNoQuota) {
  EXPECT_TRUE(std::isinf(cgroup_quota_cpus(root_)));
  EXPECT_GE(cpu_budget(root_).usable, 1);
}

TEST_F(CgroupTest, Version2TakesTheTightestGroupOnTheWayUp) {
  file("proc/self/mountinfo", kV2Mount);
  file("proc/self/cgroup", "0::/system.slice/job.service/task\n");
  file("sys/fs/cgroup/system.slice/job.service/task/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(cgroup_quota_cpus(root_)));
  file("sys/fs/cgroup/system.slice/job.service/cpu.max", "250000 100000\n");
  file("sys/fs/cgroup/system.slice/cpu.max", "1600000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota_cpus(root_), 2.5);
  file("sys/fs/cgroup/system.slice/job.service/task/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota_cpus(root_), 0.5);
  EXPECT_EQ(cpu_budget(root_).usable, 1);
}

TEST_F(CgroupTest, AContainerWithItsOwnCgroupNamespaceReadsTheMountPoint) {
  file("proc/self/mountinfo", kV2Mount);
  file("proc/self/cgroup", "0::/\n");
  file("sys/fs/cgroup/cpu.max", "150000 50000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota_cpus(root_), 3);
}

TEST_F(CgroupTest, AGroupOutsideTheNamespaceReadsTheMountPoint) {
  file("proc/self/mountinfo", kV2Mount);
  file("proc/self/cgroup", "0::/../other\n");
  file("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota_cpus(root_), 1);
}

TEST_F(CgroupTest, Version1InAContainerStripsTheRootOfTheMount) {
  file("proc/self/mountinfo",
       "40 1 0:30 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
       "41 1 0:31 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
  file("proc/self/cgroup", "5:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc/inner\n0::/x\n");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota_cpus(root_), 4);
  file("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "120000\n");
  file("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_quota_cpus(root_), 1.2);
  file("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n");
  EXPECT_DOUBLE_EQ(cgroup_quota_cpus(root_), 4);
}

TEST_F(CgroupTest, GarbageIsNoQuota) {
  file("proc/self/mountinfo",
       "\n - cgroup2\n- cgroup2 x y\n\n30 - cgroup \n" + std::string(kV2Mount));
  file("proc/self/cgroup", ":::\n0::/a\n\nx\n");
  for (const char* text : {"", "\n", "x y", "0 100000", "-5 100000", "100000", "5 0", "nan nan"}) {
    file("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_TRUE(std::isinf(cgroup_quota_cpus(root_))) << text;
    EXPECT_GE(cpu_budget(root_).usable, 1);
  }
}

TEST(CpuBudget, ARestrictedAffinityMaskLimitsTheUsableCores) {
  std::thread([] {
    const CpuList before = affinity_cpus();
    ASSERT_FALSE(before.empty());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(before.back(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(affinity_cpus(), CpuList{before.back()});
    EXPECT_EQ(cpu_budget().affinity_cpus, 1);
    EXPECT_EQ(usable_cores(), 1);
  }).join();
}

TEST(CpuList, TextAndNumbersAgree) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (CpuList{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("8,0-1,1"), (CpuList{0, 1, 8}));
  EXPECT_EQ(parse_cpu_list("\n"), CpuList{});
  EXPECT_EQ(to_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(to_text({}), "");
  for (const char* text : {"a", "3-1", "-1", "1,", ",1", "0-99999999", "1 2", "1-", "0-65536"}) {
    EXPECT_FALSE(parse_cpu_list(text)) << text;
  }
}

}  // namespace
}  // namespace rondo::topology
