// SPDX-License-Identifier: Apache-2.0
// The table on standard output: nccl-tests' 13 fields. With --plain its lines exactly; with
// --extended followed by the out-of-place side's percentiles, the slowest rank and the plan; else
// in 100 columns.
#pragma once

#include <string>

#include "bench/options.h"
#include "bench/results.h"

namespace rondo::bench {

std::string table_header(const Options& options);
std::string table_row(const Options& options, const Row& row);

// A number in `width` characters: two decimals, fewer if they do not fit, then an exponent.
std::string shrink(double value, int width);

}  // namespace rondo::bench
