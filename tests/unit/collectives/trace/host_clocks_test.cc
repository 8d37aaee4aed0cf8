// SPDX-License-Identifier: Apache-2.0
// However slow and lopsided the exchanges are, the true offset lies within the error.
#include "collectives/trace/host_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

namespace rondo::trace {
namespace {

TEST(HostClocks, BoundTheTrueOffset) {
  std::mt19937_64 random(7);
  for (int turn = 0; turn < 200; ++turn) {
    const std::vector<std::uint64_t> hosts = {4, 4, 9, 9, 2};
    const HostShape shape = shape_of_hosts(hosts);
    std::int64_t offsets[] = {0, 0, 0};
    for (int h = 1; h < 3; ++h)
      offsets[h] = static_cast<std::int64_t>(random() % 2'000'000'000) - 1'000'000'000;
    std::vector<std::vector<ClockReading>> rounds;
    for (std::int64_t begin = 0, round = 0; round < 6; ++round, begin += 10'000'000) {
      // All ranks send before the first one has received all.
      std::vector<ClockReading> readings;
      std::int64_t last = 0;
      std::vector<std::int64_t> sent;
      for (std::size_t r = 0; r < hosts.size(); ++r) {
        sent.push_back(begin + static_cast<std::int64_t>(random() % 3'000'000));
        last = std::max(last, sent.back());
      }
      for (std::size_t r = 0; r < hosts.size(); ++r) {
        const std::int64_t clock = offsets[shape.host_of(static_cast<int>(r))];
        const auto after = last + 1000 + static_cast<std::int64_t>(random() % 2'000'000);
        readings.push_back({sent[r] + clock, after + clock});
      }
      rounds.push_back(readings);
    }
    EXPECT_EQ(offset_of(rounds, shape, 0).offset_ns, 0);
    EXPECT_EQ(offset_of(rounds, shape, 0).error_ns, 0);
    for (int h = 1; h < 3; ++h) {
      const HostOffset found = offset_of(rounds, shape, h);
      EXPECT_LE(std::abs(found.offset_ns - offsets[h]), found.error_ns);
      EXPECT_LE(found.error_ns, 5'000'000);
    }
  }
}

TEST(HostClocks, AreNotMeasuredOnOneHost) {
  const std::vector<std::uint64_t> hosts = {4, 4};
  const auto never = [](std::span<const std::byte>) -> Result<std::vector<std::vector<std::byte>>> {
    return fail(StatusCode::kInternalError, "an exchange");
  };
  const auto measured = measure_offset(shape_of_hosts(hosts), 1, 6, never);
  ASSERT_TRUE(measured.ok());
  EXPECT_EQ(measured->error_ns, 0);
}

// A round needs the exchange after it, by which its last readings travel; no round needs none.
TEST(HostClocks, AreComparedAsOftenAsRanksAsk) {
  const std::vector<std::uint64_t> hosts = {4, 5};
  for (const int rounds : {0, 1, 6}) {
    int exchanges = 0;
    const auto echo = [&](std::span<const std::byte> mine) {
      ++exchanges;
      return Result<std::vector<std::vector<std::byte>>>(
          std::vector<std::vector<std::byte>>(2, {mine.begin(), mine.end()}));
    };
    const auto measured = measure_offset(shape_of_hosts(hosts), 1, rounds, echo);
    ASSERT_TRUE(measured.ok());
    EXPECT_EQ(exchanges, rounds == 0 ? 0 : rounds + 1);
    EXPECT_EQ(measured->error_ns > 0, rounds > 0);
  }
}

TEST(HostClocks, RefuseAReadingOfAnotherSize) {
  const std::vector<std::uint64_t> hosts = {4, 5};
  const auto odd =
      [](std::span<const std::byte> mine) -> Result<std::vector<std::vector<std::byte>>> {
    std::vector<std::vector<std::byte>> parts;
    parts.emplace_back(mine.begin(), mine.end());
    parts.emplace_back(3);
    return parts;
  };
  const auto measured = measure_offset(shape_of_hosts(hosts), 0, 1, odd);
  ASSERT_FALSE(measured.ok());
  EXPECT_EQ(measured.error().text, "rank 1 sent 3 bytes for its clock, not 16");
}

}  // namespace
}  // namespace rondo::trace
