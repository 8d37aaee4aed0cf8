// SPDX-License-Identifier: Apache-2.0
// TuneFile: the rates that `rondo tune` measured on a machine, as a small text file.
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
// Guarantees: parse() accepts only complete files of these versions as written by format(). It
// rejects cut files (no `end`), newer versions, and rates that are not finite, above 0 and at most
// 1e9. Files without GPUs have the version that older releases of Rondo read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collectives/planner/device_rates.h"
#include "collectives/planner/host_costs.h"

namespace rondo {

struct TuneFile {
  std::string cpu;  // one line that names the type of machine
  std::uint64_t graph = 0;
  std::array<double, kHostRates> ns = host_priors();
  std::string gpu;          // one line; empty: no GPU was measured
  gpu::DeviceCosts device;  // only measured rates are set
};

std::string format_tune_file(const TuneFile& file);
// Fails with kInvalidArgument; the text begins with `source` and names the wrong line.
Result<TuneFile> parse_tune_file(std::string_view text, std::string_view source);

// The fields that a file must match to belong to this machine; the GPU's name is not filled in.
// Cost: some milliseconds.
TuneFile tune_key_of_this_machine();

struct TunedCosts {
  HostCosts host;
  gpu::DeviceCosts device;
  std::string refused;  // why the file, or its rates of GPUs, are not used; empty: they are
};
// Rates of the file, if it belongs to this machine. `gpu`: name of this rank's GPU; empty: none.
// Priors if the file cannot be read, is damaged, is from a newer Rondo or another machine; for GPU
// rates alone, also if it is from other GPUs.
TunedCosts costs_of_file(const std::string& path, std::string_view gpu = {});
// The same for the file that RONDO_TUNE_FILE names; logs `refused` at WARN. Priors if it is not
// set.
TunedCosts costs_of_environment(std::string_view gpu = {});

}  // namespace rondo
