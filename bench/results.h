// SPDX-License-Identifier: Apache-2.0
// Results of a benchmark run: rows of two sides (out of place, in place), and their arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/element_types.h"
#include "bench/options.h"

namespace rondo::bench {

// Statistics of a list of times; percentiles by nearest rank.
struct Summary {
  double mean = 0, min = 0, max = 0, p50 = 0, p95 = 0, p99 = 0;
  double deviation = 0;  // standard
};
Summary summarise(std::vector<double> samples);

// One rank's report on one measurement.
struct RankMeasurement {
  double mean_us = 0;       // per call, over all timed iterations
  std::uint64_t wrong = 0;  // number of wrong elements and guard bytes
  std::string example;      // the first wrong one
  std::string plan;
  std::vector<float> samples_us;  // per call, by iteration
};
std::string pack(const std::vector<RankMeasurement>& reports);
std::vector<RankMeasurement> unpack(const std::string& bytes);

inline constexpr std::int64_t kNotChecked = -1;

struct Side {
  bool measured = false;
  double time_us = 0;  // by -a
  double algorithm_gbs = 0, bus_gbs = 0;
  double roofline = 0;         // minimum possible time / time_us; 0: unknown, or host memory
  std::string_view roof_of{};  // the limit: bench/roofline.h
  std::int64_t wrong = kNotChecked;
  Summary iterations;  // over the slowest rank of each iteration
  Summary ranks;       // over the ranks' means
  int slowest_rank = 0;
  std::vector<double> rank_us;
  std::vector<double> samples_us;
  std::string example;  // "rank 3: element 17 is ..."
};

struct Row {
  std::size_t bytes = 0, count = 0;
  std::string type, op;
  int root = -1;
  std::string plan, timestamp;
  int iterations = 0;
  Side out_of_place, in_place;
};

// Merges the ranks' reports. Without `checked`, wrong counts are ignored.
Side combine(const std::vector<RankMeasurement>& reports, const Options& options,
             const Layout& layout, bool checked);

// Bandwidth in GB/s (1e9); 0 where time is 0.
double gbs(double bytes, double microseconds);

// A rank and its device, as the table of ranks names them.
struct Rank {
  int rank = 0;
  int pid = 0;
  std::string host;
  std::string device;
  int number = 0;  // index of the device on its host
  std::string bus_id;
  // Set for the first rank of a device: copies inside it, read plus written bytes; copies to
  // another device, 0 if there is none.
  double copy_gbs = 0, link_gbs = 0;
  double network_gbs = 0;  // of its host, from the topology (rondoCommNetworkRate); 0: unknown
};

struct Memory {
  std::size_t initial = 0, buffers = 0, collective = 0;  // bytes, maximum over the ranks
};

struct Run {
  std::vector<Row> rows;
  std::int64_t wrong = 0;
  Memory memory;
  std::vector<std::string> errors;

  double average_bus_gbs() const;  // over all measured sides, as nccl-tests does
};

}  // namespace rondo::bench
