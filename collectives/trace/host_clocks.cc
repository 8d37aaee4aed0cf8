// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/host_clocks.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/seconds.h"

namespace rondo::trace {
namespace {

struct Extremes {  // over the ranks of a host, in one exchange
  std::int64_t latest_before = std::numeric_limits<std::int64_t>::min();
  std::int64_t first_after = std::numeric_limits<std::int64_t>::max();
};

Extremes extremes_of(const std::vector<ClockReading>& round, const HostShape& shape, int host) {
  Extremes found;
  for (std::size_t r = 0; r < round.size(); ++r) {
    if (shape.host_of(static_cast<int>(r)) != host) continue;
    found.latest_before = std::max(found.latest_before, round[r].before_ns);
    found.first_after = std::min(found.first_after, round[r].after_ns);
  }
  return found;
}

}  // namespace

HostOffset offset_of(std::span<const std::vector<ClockReading>> rounds, const HostShape& shape,
                     int host) {
  assert(host >= 0 && host < shape.hosts());
  const int reference = shape.host_of(0);
  if (host == reference || rounds.empty()) return {};
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  for (const std::vector<ClockReading>& round : rounds) {
    const Extremes there = extremes_of(round, shape, host);
    const Extremes here = extremes_of(round, shape, reference);
    low = std::max(low, there.latest_before - here.first_after);
    high = std::min(high, there.first_after - here.latest_before);
  }
  return {low + (high - low) / 2, std::abs(high - low) / 2 + 1};
}

Result<HostOffset> measure_offset(const HostShape& shape, int rank, int count,
                                  const Gather& gather) {
  assert(gather != nullptr && count >= 0);
  if (shape.hosts() < 2 || count == 0) return HostOffset{};
  std::vector<std::vector<ClockReading>> rounds;
  ClockReading own;
  for (int round = 0; round <= count; ++round) {
    // `after` of the exchange before this one travels with `before` of this one.
    own.before_ns = now_ns();
    RONDO_TRY(const auto parts, gather(std::as_bytes(std::span(&own, 1))));
    const std::int64_t after = now_ns();
    std::vector<ClockReading> readings;
    for (const auto& part : parts) {
      ClockReading reading;
      if (part.size() != sizeof(reading))
        return fail(StatusCode::kRemoteError, "rank {} sent {} bytes for its clock, not {}",
                    readings.size(), part.size(), sizeof(reading));
      std::memcpy(&reading, part.data(), sizeof(reading));
      readings.push_back(reading);
    }
    for (std::size_t r = 0; round > 0 && r < readings.size(); ++r)
      rounds.back()[r].after_ns = readings[r].after_ns;
    if (round < count) rounds.push_back(std::move(readings));
    own.after_ns = after;
  }
  return offset_of(rounds, shape, shape.host_of(rank));
}

}  // namespace rondo::trace
