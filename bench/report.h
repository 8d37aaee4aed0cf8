// Results as files: JSON (one object, nccl-tests' names with real booleans and numbers), CSV (one
// row a measurement), and the comparison with an earlier JSON.
//
// Files appear whole or not at all: written beside their name, then renamed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/options.h"
#include "bench/results.h"

namespace rondo::bench {

struct Rank {
  int rank = 0;
  int pid = 0;
  std::string host;
  std::string device;
  int number = 0;  // of the device on its host
  std::string bus_id;
  // Only with the device's first rank: of copies inside it, read and written bytes; and of those
  // that it writes to another device, 0 where there is none.
  double copy_gbs = 0, link_gbs = 0;
  double network_gbs = 0;  // of its host, by the topology (rondoCommNetworkRate); 0: not known
};

struct Context {
  std::vector<std::string> arguments;
  std::string start_time, end_time;
  int ranks = 1, processes = 1;
  int library_version = 0;
  std::vector<Rank> devices;
};

std::string json_of(const Context& context, const Options& options, const Run& run);
std::string csv_of(const Context& context, const Options& options, const Run& run);

struct Comparison {
  int compared = 0;
  std::vector<std::string> slower;  // one sentence each
};
// Medians of this run against those of the file, for measurements that both have: same collective,
// ranks, kind of launch, size, type, operation, root and side.
Result<Comparison> compare(const std::string& baseline_path, const Context& context,
                           const Options& options, const Run& run);

}  // namespace rondo::bench
