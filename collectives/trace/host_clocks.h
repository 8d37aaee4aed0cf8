// SPDX-License-Identifier: Apache-2.0
// Offsets between the monotonic clocks of hosts, measured while a communicator is created of which
// some rank records its calls, in as many rounds as the most precise record needs.
//
// All ranks take part in a few exchanges. No rank receives an exchange before all ranks have sent
// their part, so each one bounds the offset from both sides; the bounds of all exchanges are
// intersected. Guarantees: the true offset at that moment is within error_ns of offset_ns, however
// slow the network is. All ranks compute the same. Cost: rounds + 1 exchanges of 16 bytes a
// rank where there are several hosts, else none. Later drift of the clocks (some us a second at
// worst, usually far less) is not corrected.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/context/host_shape.h"

namespace rondo::trace {

struct HostOffset {
  std::int64_t offset_ns = 0;  // clock of the host minus that of rank 0's host
  std::int64_t error_ns = 0;
};

// One rank's clock before it sends its part of an exchange, and after it has received all parts.
struct ClockReading {
  std::int64_t before_ns = 0, after_ns = 0;
};

// The offset of `host`. rounds: of each exchange, the reading of each rank.
HostOffset offset_of(std::span<const std::vector<ClockReading>> rounds, const HostShape& shape,
                     int host);

// The offset of the rank's own host. gather: an exchange of all ranks, in rank order.
using Gather =
    std::function<Result<std::vector<std::vector<std::byte>>>(std::span<const std::byte>)>;
Result<HostOffset> measure_offset(const HostShape& shape, int rank, int rounds,
                                  const Gather& gather);

}  // namespace rondo::trace
