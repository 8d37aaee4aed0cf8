// Roofline: how fast a call could be at most on the devices at hand. The column %roof is that share
// of the time that a call took.
//
// Three limits, each of bytes that a call has to move at least:
// - A device's memory, from which every input is read and to which every output is written once: by
//   the speed of the device's own copies, measured in the same run.
// - The links between the devices of a host, over which those bytes pass that one device has and
//   another one of its host needs: by the speed of copies between devices. With several hosts, sums
//   count for no link, as any part of a sum may come by the network instead. No call is taken to
//   send data out of its host and back.
// - The network of a host, over which those bytes pass that one host has and another one needs: by
//   the rates of its ports (rondoCommNetworkRate). Nobody measures those. A host whose rate is not
//   known limits nothing.
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
  std::string_view of{};  // "memory", "link" or "network": what limits it
};

// All ranks make one call. Links and networks are taken to have no switch that adds: NVLS may beat
// the roof of sums.
Roof roof_of(std::span<const Rank> ranks, const Test& test, double spread, std::size_t bytes);

// Bytes that leave and enter a place at least.
struct Crossing {
  double out = 0, in = 0;
};
struct Crossings {
  std::vector<Crossing> of_place;
  // That leave the places at least, all together, and enter them: a sum that all d places get takes
  // 2 (d - 1) times its bytes, but no place has to pass more of it than another one.
  double all = 0;
};
// Of one call between places (devices or hosts, numbered from 0 on as they come first among the
// ranks). What passes between places of different areas does not count, nor do sums where there are
// several areas. The ranks of a place are of one area.
Crossings crossings(std::span<const int> place_of_rank, std::span<const int> area_of_rank,
                    const Test& test, double spread, std::size_t bytes);

}  // namespace rondo::bench
