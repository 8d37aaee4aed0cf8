// SPDX-License-Identifier: Apache-2.0
// Communicators that ask for copy engines, and windows for their calls.
#pragma once

#include "tests/gpu/process_bodies.h"

namespace rondo::test {

// CTA policy ZERO, or another one.
inline ncclConfig_t engines(int policy = NCCL_CTA_POLICY_ZERO) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = policy;
  return config;
}

// Its ranks join by engines().
inline Job by_engines(Job job) {
  job.create = false;
  return job;
}

// A symmetric window of two halves of a block of each rank.
class Halves {
 public:
  Halves(NcclRank& seat, std::size_t block)
      : seat_(seat), block_(block), half_(block * seat.size), memory_(2 * half_, 0, true) {
    EXPECT_EQ(ncclCommWindowRegister(seat.comm, memory_.data(), 2 * half_, &window_,
                                     NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess)
        << ncclGetLastError(seat.comm);
  }
  ~Halves() {
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(seat_.comm, window_), ncclSuccess);
  }
  Halves(const Halves&) = delete;
  Halves& operator=(const Halves&) = delete;

  std::byte* first(int blocks = 0) const { return memory_.data() + blocks * block_; }
  std::byte* second(int blocks = 0) const { return first(blocks) + half_; }
  static std::byte value(int rank, std::size_t i, int round) {
    return static_cast<std::byte>((i % 251 + 31 * rank + 7 * round) & 0xff);
  }
  // Byte i of the window: value(rank, i, round).
  void fill(int round) {
    Bytes content(2 * half_);
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = value(seat_.rank, i, round);
    memory_.put(content, 0, seat_.stream);
  }
  // The `count` bytes from `at` on are the bytes of `rank` from `from` on.
  void check(const std::byte* at, std::size_t count, int rank, const std::byte* from, int round) {
    const auto to = static_cast<std::size_t>(at - memory_.data());
    const auto offset = static_cast<std::size_t>(from - memory_.data());
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(memory_.host()[to + i], value(rank, offset + i, round))
          << "byte " << i << " of rank " << seat_.rank << " from rank " << rank;
  }
  void get() {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
  }

 private:
  NcclRank& seat_;
  const std::size_t block_, half_;
  DeviceBuffer memory_;
  ncclWindow_t window_ = nullptr;
};

}  // namespace rondo::test
