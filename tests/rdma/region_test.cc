// SPDX-License-Identifier: Apache-2.0
// Registered memory: pieces share a few regions, the total is bounded, and children do not inherit
// it.
#include "transport/verbs/ibverbs/region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "tests/rdma/ends.h"

namespace rondo::verbs {
namespace {

using testing::HasSubstr;

class Regions : public testing::Test {
 protected:
  void SetUp() override {
    const auto ports = guest_ports();
    if (ports.empty()) GTEST_SKIP() << "no soft-RoCE device: tests/rdma/guest.sh";
    device_ = open_port(ports[0]);
    ASSERT_NE(device_, nullptr);
  }
  std::unique_ptr<DeviceContext> device_;
};

TEST_F(Regions, PiecesAreApartOfCacheLinesAndOfOneRegion) {
  RegionPool pool(*device_, 64 << 20);
  std::set<std::uint32_t> keys;
  std::uint64_t end = 0;
  for (const std::size_t bytes : {1, 64, 65, 4096, 100000}) {
    const Slice slice = taken(pool, bytes);
    EXPECT_EQ(slice.bytes.size(), bytes);
    EXPECT_EQ(address_of(slice.bytes) % 64, 0u);
    EXPECT_GE(address_of(slice.bytes), end);
    end = address_of(slice.bytes) + bytes;
    keys.insert(slice.remote_key);
  }
  EXPECT_EQ(keys.size(), 1u);
  EXPECT_EQ(pool.mapped(), 4u << 20);
}

TEST_F(Regions, WhatIsGivenBackIsTakenAgainWhole) {
  RegionPool pool(*device_, 4 << 20);
  std::vector<Slice> slices;
  for (int i = 0; i < 4; ++i) slices.push_back(taken(pool, 1 << 20));
  EXPECT_FALSE(pool.take(1).ok());
  for (const int i : {2, 0, 3, 1}) pool.give_back(slices[static_cast<std::size_t>(i)]);
  EXPECT_TRUE(pool.take(4 << 20).ok());
}

TEST_F(Regions, TheBoundHolds) {
  RegionPool pool(*device_, 6 << 20);
  EXPECT_TRUE(pool.take(3 << 20).ok());
  EXPECT_TRUE(pool.take(2 << 20).ok());  // a second block, from the remaining memory
  EXPECT_EQ(pool.mapped(), 6u << 20);
  const auto refused = pool.take(2 << 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("of at most 6291456 are in use"));
}

TEST_F(Regions, AreNotInChildren) {
  RegionPool pool(*device_, 4 << 20);
  const Slice slice = taken(pool, 4096);
  slice.bytes[0] = std::byte{1};
  const pid_t child = fork();
  if (child == 0) {
    unsigned char resident = 0;
    const auto page = address_of(slice.bytes) & ~std::uint64_t{4095};
    _exit(mincore(reinterpret_cast<void*>(page), 4096, &resident) == 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the memory is in the child";
}

TEST_F(Regions, AKeyIsOfMemoryThatThereIs) {
  void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto refused =
      Region::of(*device_, {static_cast<std::byte*>(page), 4096}, Ordering::kRelaxed);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("4096 bytes cannot be registered with rxe0:1"));
  munmap(page, 4096);
}

TEST_F(Regions, ALimitOfLockedMemoryIsNamed) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setuid(65534) != 0) _exit(2);
    RegionPool pool(*device_, 64 << 20);
    const auto refused = pool.take(8 << 20);
    const bool named =
        !refused.ok() && refused.error().text.find("may lock 1048576 bytes") != std::string::npos;
    if (!named) std::fputs(refused.ok() ? "it was taken\n" : refused.error().text.c_str(), stderr);
    _exit(named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace rondo::verbs
