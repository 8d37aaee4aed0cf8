// SPDX-License-Identifier: Apache-2.0
// Costs of communicators besides memory: address space, mappings, descriptors.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "transport/shm/arena.h"

namespace rondo::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kShadowed = true;  // its shadow memory exceeds every limit here
#else
constexpr bool kShadowed = false;
#endif

int descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count - 3;  // ".", ".." and the folder itself
}

int mappings() {
  std::ifstream file("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

bool limit(int resource, rlim_t maximum) {
  const rlimit limits{maximum, maximum};
  return setrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0;
}

bool joins(EngineRank& seat) {
  const Status joined = seat.join(short_timeouts(120));
  seat.expect(joined.ok(), joined.ok() ? "" : joined.error().text);
  return joined.ok();
}

struct Limited {
  int ranks;
  int gigabytes;
};
class LimitedAddressSpace : public testing::TestWithParam<Limited> {};

TEST_P(LimitedAddressSpace, HoldsAllRanksAndTheirBuffersAreUsedInPlace) {
  if (kShadowed) GTEST_SKIP() << "a sanitizer needs more address space than that";
  Job options;
  options.create = false;
  options.environment = {{"RONDO_RECORD", "0"}};  // a record of calls has memory of its own
  RankProcesses ranks(GetParam().ranks, options, [](EngineRank& seat) {
    seat.expect(limit(RLIMIT_AS, rlim_t{1} * GetParam().gigabytes << 30), "setrlimit");
    if (!joins(seat)) return;
    const Case c{Collective::kAllGather, DataType::kInt32, RedOp::kSum, seat.size, 0, 100'000, 7};
    const std::uint64_t before = seat.comm->memory().shared_bytes;
    for (int turn = 0; turn < 3; ++turn) {
      const std::string wrong = check_call(*seat.comm, c, false, 0, Memory::kMapped);
      seat.expect(wrong.empty(), wrong);
    }
    const std::uint64_t after = seat.comm->memory().shared_bytes;
    seat.expect(after == before, fmt::format("{} bytes of staging", after - before));
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Ranks, LimitedAddressSpace, testing::Values(Limited{4, 4}, Limited{8, 6}),
                         [](const auto& info) {
                           return fmt::format("{}In{}G", info.param.ranks, info.param.gigabytes);
                         });

TEST(ArenaExtents, AreReusedAndGrowWithWhatIsAllocated) {
  auto arena = shm::Arena::of_process();
  ASSERT_TRUE(arena.ok()) << arena.error().text;
  const std::size_t before = (*arena)->mapped();
  std::vector<void*> buffers;
  for (int i = 0; i < 2000; ++i) {
    auto made = (*arena)->allocate(100'000);
    ASSERT_TRUE(made.ok()) << made.error().text;
    std::memset(*made, i, 100'000);
    buffers.push_back(*made);
  }
  const std::size_t grown = (*arena)->mapped();
  EXPECT_LE(grown, before + (std::size_t{512} << 20));
  for (void* buffer : buffers) EXPECT_TRUE((*arena)->free(buffer).ok());
  for (int i = 0; i < 2000; ++i) {
    auto made = (*arena)->allocate(std::size_t{100'000} + 10 * i);
    ASSERT_TRUE(made.ok()) << made.error().text;
    EXPECT_EQ(*static_cast<char*>(*made), 0);
    EXPECT_TRUE((*arena)->free(*made).ok());
  }
  EXPECT_EQ((*arena)->mapped(), grown);
  EXPECT_FALSE((*arena)->free(buffers[0]).ok());
}

TEST(ArenaExtents, ReportWhyTheyDoNotGrow) {
  if (kShadowed) GTEST_SKIP() << "a sanitizer needs more address space than that";
  Job options;
  options.create = false;
  RankProcesses ranks(1, options, [](EngineRank& seat) {
    auto arena = shm::Arena::of_process();
    seat.expect(arena.ok(), "an arena");
    seat.expect(limit(RLIMIT_AS, rlim_t{1} << 30), "setrlimit");
    auto much = (*arena)->allocate(std::size_t{2} << 30);
    seat.expect(!much.ok() && much.error().text.find("ulimit -v") != std::string::npos,
                much.ok() ? "allocated" : much.error().text);
    auto all = (*arena)->allocate(std::size_t{1} << 60);
    seat.expect(!all.ok() && all.error().text.find("the machine has") != std::string::npos,
                all.ok() ? "allocated" : all.error().text);
    auto little = (*arena)->allocate(1 << 20);
    seat.expect(little.ok(), little.ok() ? "" : little.error().text);
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// Exceeding the cgroup's limit would make the kernel kill the process.
TEST(MemoryLimit, OfAControlGroupIsAnErrorOfTheAllocation) {
  const bool v2 = access("/sys/fs/cgroup/cgroup.subtree_control", F_OK) == 0;
  const std::string folder =
      fmt::format("/sys/fs/cgroup{}/rondo-limit-{}", v2 ? "" : "/memory", getpid());
  const auto write = [&](const std::string& file, const std::string& text) {
    std::ofstream stream(folder + "/" + file);
    return static_cast<bool>(stream << text << std::flush);
  };
  const bool made = mkdir(folder.c_str(), 0755) == 0;
  if (!made || !write(v2 ? "memory.max" : "memory.limit_in_bytes", "67108864")) {
    if (made) rmdir(folder.c_str());
    GTEST_SKIP() << "no control group with a memory limit can be made here";
  }
  Job options;
  options.create = false;
  {
    RankProcesses ranks(1, options, [&](EngineRank& seat) {
      seat.expect(write("cgroup.procs", std::to_string(getpid())), "to join the group");
      nap(1.1);  // a reading of the old group, which an earlier test may have left, serves 1 s
      auto arena = shm::Arena::of_process();
      auto much = (*arena)->allocate(std::size_t{256} << 20);
      seat.expect(!much.ok() && much.error().text.find("cgroup") != std::string::npos,
                  much.ok() ? "allocated" : much.error().text);
      auto little = (*arena)->allocate(16 << 20);
      seat.expect(little.ok(), little.ok() ? "" : little.error().text);
    });
    EXPECT_TRUE(ranks.wait_exits());
    ranks.check_expectations();
  }
  for (int turn = 0; turn < 1000 && rmdir(folder.c_str()) != 0; ++turn) nap(0.005);
}

// RONDO_TEST_CHILDREN=600 RONDO_TEST_FILES=1024 are the numbers of programs with default limits.
TEST(Children, CostNoDescriptorsOnceThereAreMany) {
  const auto from_environment = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : otherwise;
  };
  const int children = from_environment("RONDO_TEST_CHILDREN", 120);
  const int files = from_environment("RONDO_TEST_FILES", 128);
  Job options;
  options.create = false;
  RankProcesses ranks(2, options, [&](EngineRank& seat) {
    seat.expect(limit(RLIMIT_NOFILE, static_cast<rlim_t>(files)), "setrlimit");
    if (!joins(seat)) return;
    std::vector<std::shared_ptr<Communicator>> made;
    int open = 0, mapped = 0;
    for (int i = 0; i < children; ++i) {
      auto child = seat.comm->split(0, seat.rank, short_timeouts(120), {});
      if (!child.ok())
        return seat.expect(false, fmt::format("child {}: {}", i, child.error().text));
      made.push_back(*child);
      if (i == children / 2) open = descriptors(), mapped = mappings();
    }
    const int more = children - children / 2 - 1;
    // Those of the last child are closed by other threads.
    const bool few = wait_until([&] { return descriptors() <= open; });
    seat.expect(few, fmt::format("{} descriptors, {} of half as many", descriptors(), open));
    seat.expect(mappings() <= mapped + 2 * more,
                fmt::format("{} mappings, {} of half as many", mappings(), mapped));
    SampleCall sample(Collective::kAllReduce, 100, 2);
    seat.expect(made.back()->run({&sample.call, 1}).ok(), "a call of the last child");
    made.clear();
    const bool fewer = wait_until([&] { return descriptors() < open; });
    seat.expect(fewer, fmt::format("{} descriptors in the end", descriptors()));
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
