// SPDX-License-Identifier: Apache-2.0
// rondo bench COLLECTIVE, also as COLLECTIVE_perf, a link to rondo.
#include <algorithm>
#include <string_view>

#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "bench/options.h"
#include "bench/sweep.h"
#include "topology/cpu_budget.h"

namespace rondo::cli {

int bench_command(int argc, char** argv) {
  std::string_view program = argv[0];
  program = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  bench::MainOptions options{.named = std::nullopt, .plain = false};
  options.default_ranks = std::clamp(topology::usable_cores(), 2, 8);
  if (program.ends_with("_perf")) {
    program.remove_suffix(5);
    options.named = bench::kind_by_name(program);
    options.plain = true;
    if (!options.named) {
      const CommandLine line("", argc, argv, bench::kBadPerfLine);
      return line.refuse(there_is_no("collective", program, bench::names_of_kinds()));
    }
  }
  return bench::bench_main(argc, argv, options);
}

}  // namespace rondo::cli
