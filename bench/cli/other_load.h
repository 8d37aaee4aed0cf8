// SPDX-License-Identifier: Apache-2.0
// OtherLoad: how many cores other programs have used since it was made, for measurements that need
// an idle machine.
//
// Counts all cores of the machine (/proc/stat), also in a container, less what this process and its
// ended children have used. 0 where the system does not tell. Cost: two small reads.
//
//   const OtherLoad load;
//   measure();
//   if (load.cores() > kBusyCores) warn();
#pragma once

#include <optional>
#include <string_view>

namespace rondo::cli {

struct CpuTime {
  double busy = 0;  // s of all cores since boot
  double own = 0;   // s of this process and its ended children
  double clock = 0;
};

// From the text of /proc/stat.
std::optional<double> busy_seconds(std::string_view stat, long ticks_per_second);
// Between two readings.
double other_cores(const CpuTime& before, const CpuTime& after);

// More than what the system itself needs.
inline constexpr double kBusyCores = 0.25;

class OtherLoad {
 public:
  OtherLoad();
  double cores() const;

 private:
  CpuTime begin_;
};

// The load of a machine on which this process does nothing for 0.3 s.
double load_now();

}  // namespace rondo::cli
