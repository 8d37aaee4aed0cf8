// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/other_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "topology/small_file.h"

namespace rondo::cli {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

CpuTime cpu_time() {
  CpuTime time;
  const auto stat = topology::read_small_file("/proc/stat");
  if (stat) time.busy = busy_seconds(*stat, sysconf(_SC_CLK_TCK)).value_or(0);
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (getrusage(who, &usage) != 0) continue;
    time.own += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  time.clock = std::chrono::duration<double>(now).count();
  return time;
}

}  // namespace

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guests are in user.
std::optional<double> busy_seconds(std::string_view stat, long ticks_per_second) {
  if (!stat.starts_with("cpu ") || ticks_per_second <= 0) return std::nullopt;
  const std::string_view line = stat.substr(4, stat.find('\n') - 4);
  const char* at = line.data();
  const char* const end = at + line.size();
  constexpr int kColumns = 8, kIdle = 3, kWaiting = 4;
  double ticks = 0;
  for (int column = 0; column < kColumns; ++column) {
    while (at < end && *at == ' ') ++at;
    unsigned long long value = 0;
    const auto read = std::from_chars(at, end, value);
    if (read.ec != std::errc()) return std::nullopt;
    at = read.ptr;
    if (column != kIdle && column != kWaiting) ticks += static_cast<double>(value);
  }
  return ticks / static_cast<double>(ticks_per_second);
}

double other_cores(const CpuTime& before, const CpuTime& after) {
  const double seconds = after.clock - before.clock;
  if (seconds <= 0) return 0;
  const double others = (after.busy - before.busy) - (after.own - before.own);
  return std::max(0.0, others / seconds);
}

OtherLoad::OtherLoad() : begin_(cpu_time()) {}

double OtherLoad::cores() const { return other_cores(begin_, cpu_time()); }

double load_now() {
  const OtherLoad load;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return load.cores();
}

}  // namespace rondo::cli
