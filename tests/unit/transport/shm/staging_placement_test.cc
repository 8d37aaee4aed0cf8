// SPDX-License-Identifier: Apache-2.0
// Staging memory is on the NUMA node of the rank that writes it. Each rank touches its own part
// first, and the kernel takes a page from the node of the core that first touches it.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "topology/cpu_budget.h"
#include "topology/host_topology.h"
#include "transport/shm/memfd.h"

namespace rondo::shm {
namespace {

unsigned node_of_this_thread() {
  unsigned cpu = 0, node = 0;
  syscall(SYS_getcpu, &cpu, &node, nullptr);
  return node;
}

// The NUMA node of every page of a range; negative: an errno, -ENOENT if the page is not present.
std::vector<int> nodes_of(std::byte* begin, std::size_t bytes) {
  const std::size_t page = sysconf(_SC_PAGESIZE);
  std::vector<void*> pages;
  for (std::size_t at = 0; at < bytes; at += page) pages.push_back(begin + at);
  std::vector<int> nodes(pages.size(), -EINVAL);
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
    return {};
  return nodes;
}

TEST(StagingPlacement, IsTheNodeOfTheRankThatCommitsIt) {
  constexpr std::size_t kBytes = 256 << 10;
  const auto host = topology::discover();
  ASSERT_TRUE(host.ok());
  std::vector<int> cpus;  // one of every node that this process may run on
  for (const topology::NumaNode& node : host->numa_nodes)
    for (const int cpu : topology::affinity_cpus())
      if (std::find(node.cpus.begin(), node.cpus.end(), cpu) != node.cpus.end()) {
        cpus.push_back(cpu);
        break;
      }
  if (cpus.size() < 2)
    std::printf("one NUMA node: this says only that every page is there before it is written\n");
  auto fd = create_memfd("placement", kBytes * cpus.size());
  ASSERT_TRUE(fd.ok());
  auto mapping = Mapping::map(fd->get(), kBytes * cpus.size());
  ASSERT_TRUE(mapping.ok());
  for (std::size_t rank = 0; rank < cpus.size(); ++rank) {
    std::byte* own = mapping->data() + rank * kBytes;
    unsigned node = 0;
    std::thread writer([&] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpus[rank], &set);
      sched_setaffinity(0, sizeof(set), &set);
      node = node_of_this_thread();
      EXPECT_TRUE(commit(own, kBytes, "test").ok());
    });
    writer.join();
    const std::vector<int> nodes = nodes_of(own, kBytes);
    if (nodes.empty()) GTEST_SKIP() << "move_pages is not permitted here";
    for (const int at : nodes) ASSERT_EQ(at, static_cast<int>(node)) << "rank " << rank;
  }
}

}  // namespace
}  // namespace rondo::shm
