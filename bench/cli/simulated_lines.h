// SPDX-License-Identifier: Apache-2.0
// SimulatedLine: the table, the CSV and the JSON of rondo simulate, one line per size and
// algorithm.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "bench/cli/asked_call.h"
#include "collectives/model/predictions.h"

namespace rondo::cli {

struct SimulatedLine {
  std::size_t bytes = 0, count = 0;
  std::string algorithm, protocol, by, busiest;
  int channels = 0;       // 0: the algorithm has none
  double planner_us = 0;  // 0: no planner chooses it
  double us = 0, algorithm_gbs = 0, bus_gbs = 0, busiest_share = 0;
  bool planned = false, fastest = false;
};

// Fills in the time, its source, and the bandwidths of the call's bytes.
SimulatedLine line_of(const bench::Layout& layout, const model::Prediction& prediction);
void mark_fastest(std::vector<SimulatedLine>* of_one_size);

void print_columns();
void print_line(const SimulatedLine& line, const AskedCall& call, bool marks);
Json json_of(const std::vector<SimulatedLine>& lines, const AskedCall& call);
std::string csv_of(const std::vector<SimulatedLine>& lines, const AskedCall& call);

}  // namespace rondo::cli
