// TuneFile: the rates that `rondo tune` has measured on a machine, as a small text file.
//
//   rondo tune 1
//   cpu AMD EPYC, L2 1 MiB, L3 32 MiB
//   graph 8f3a...                    digest of the host's graph of devices
//   call 61.2                        ns, by the names of kHostRateTable: each once
//   ...
//   end
//
// Guarantees: parse() takes what format() writes, whole and of this version, and nothing else: a
// cut file lacks its end, a newer one says so, and rates are finite, above 0, at most 1e9.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collectives/planner/host_costs.h"

namespace rondo {

struct TuneFile {
  std::string cpu;  // one line that names the kind of machine
  std::uint64_t graph = 0;
  std::array<double, kHostRates> ns = host_priors();
};

std::string format_tune_file(const TuneFile& file);
// kInvalidArgument, with a text that begins with `source` and says which line is wrong.
Result<TuneFile> parse_tune_file(std::string_view text, std::string_view source);

// What a file must say to be of this machine. Cost: some milliseconds.
TuneFile tune_key_of_this_machine();

// What RONDO_TUNE_FILE names, if it is of this machine. Priors where it is not set; also, with a
// warning, where it cannot be read, is damaged, of a newer Rondo or of another machine.
HostCosts host_costs_of_environment();

}  // namespace rondo
