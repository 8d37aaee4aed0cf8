// Roofline: how fast a call could be at most on the devices at hand, by the speed of their own
// copies, measured in the same run. The column %roof is its share of the time that a call took.
//
// Two limits: a device's memory, from which every input is read and to which every output is
// written once; and the links between the devices of a host, over which at least those bytes pass
// that one device has and another one needs. Between hosts no limit is known, and none is counted.
// Pure arithmetic over the ranks' layouts (kinds.h).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "bench/lane.h"
#include "bench/report.h"

namespace rondo::bench {

struct Roof {
  double us = 0;          // the least that a call takes; 0: nothing is known
  std::string_view of{};  // "memory" or "link": what limits it
};

// Sums take 2 (d - 1) / d of the bytes over each link where all d devices get them, the least
// without a switch that adds: NVLS may beat that.
Roof roof_of(std::span<const Rank> ranks, const Test& test, double spread, std::size_t bytes);

// Bytes that leave and enter each device over its link at least: {out, in} by device, which are
// numbered as they come first among the ranks.
struct LinkBytes {
  double out = 0, in = 0;
};
std::vector<LinkBytes> link_bytes(std::span<const int> device_of_rank, const Test& test,
                                  double spread, std::size_t bytes);

}  // namespace rondo::bench
