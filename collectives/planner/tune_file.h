// TuneFile: the rates that `rondo tune` has measured on a machine, as a small text file.
//
//   rondo tune 1                     2: with GPUs
//   cpu AMD EPYC, L2 1 MiB, L3 32 MiB
//   graph 8f3a...                    digest of the host's graph of devices
//   call 61.2                        ns, by the names of kHostRateTable: each once
//   ...
//   gpu NVIDIA H100 80GB HBM3        where there are GPUs: their name
//   launch 5900                      ns, by the names of kDeviceRateTable: those that were measured
//   ...
//   end
//
// Guarantees: parse() takes what format() writes, whole and of these versions, and nothing else: a
// cut file lacks its end, a newer one says so, and rates are finite, above 0, at most 1e9. Files
// without GPUs are of the version that an older Rondo reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collectives/planner/device_rates.h"
#include "collectives/planner/host_costs.h"

namespace rondo {

struct TuneFile {
  std::string cpu;  // one line that names the kind of machine
  std::uint64_t graph = 0;
  std::array<double, kHostRates> ns = host_priors();
  std::string gpu;          // one line; empty: no GPU was measured
  gpu::DeviceCosts device;  // of these what was measured
};

std::string format_tune_file(const TuneFile& file);
// kInvalidArgument, with a text that begins with `source` and says which line is wrong.
Result<TuneFile> parse_tune_file(std::string_view text, std::string_view source);

// What a file must say to be of this machine; the GPU's name is not asked for. Cost: some
// milliseconds.
TuneFile tune_key_of_this_machine();

struct TunedCosts {
  HostCosts host;
  gpu::DeviceCosts device;
};
// What RONDO_TUNE_FILE names, if it is of this machine; `gpu`: the name of this rank's GPU, empty:
// it has none. Priors where the variable is not set; also, with a warning, where the file cannot be
// read, is damaged, of a newer Rondo, of another machine or, for GPUs alone, of other GPUs.
TunedCosts costs_of_environment(std::string_view gpu = {});

}  // namespace rondo
