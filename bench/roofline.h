// SPDX-License-Identifier: Apache-2.0
// Roofline: the minimum time that a call can take on these devices. The column %roof is this time
// as a share of the measured time.
//
// It is the maximum of three limits, each a minimum number of bytes divided by a rate:
// - Device memory: every input is read and every output is written once. Rate: the device's own
//   copies, measured in the same run.
// - Links between the devices of a host: bytes that one device has and another device of the host
//   needs. Rate: copies between devices. With several hosts, sums do not count, because any part of
//   a sum may arrive over the network. Assumes that no call sends data out of its host and back.
// - Network of a host: bytes that one host has and another host needs. Rate: its ports
//   (rondoCommNetworkRate), not measured. A host with an unknown rate sets no limit.
// Pure arithmetic over the ranks' layouts (kinds.h).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "bench/lane.h"
#include "bench/report.h"

namespace rondo::bench {

struct Roof {
  double us = 0;          // minimum time of the call; 0: unknown
  std::string_view of{};  // the limit: "memory", "link" or "network"
};

// For one call of all ranks. Assumes that no switch adds: with NVLS sums can be faster than this.
Roof roof_of(std::span<const Rank> ranks, const Test& test, double spread, std::size_t bytes);

// Minimum bytes that leave and enter a place (a device or a host).
struct Crossing {
  double out = 0, in = 0;
};
struct Crossings {
  std::vector<Crossing> of_place;
  // Minimum bytes that all places together send, and receive. A sum that all d places need takes
  // 2 (d - 1) times its size, which the places can share equally.
  double all = 0;
};
// For one call between places, numbered from 0 in the order of their first ranks. Bytes between
// places of different areas do not count; with several areas sums do not count. All ranks of a
// place must be in one area.
Crossings crossings(std::span<const int> place_of_rank, std::span<const int> area_of_rank,
                    const Test& test, double spread, std::size_t bytes);

}  // namespace rondo::bench
