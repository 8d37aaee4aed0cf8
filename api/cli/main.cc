// The rondo command. Also runs under nccl-tests' program names: a link all_reduce_perf -> rondo is
// `rondo bench all_reduce` with nccl-tests' own columns and defaults.
#include <fmt/format.h>
#include <stdio.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/cli/commands.h"
#include "api/rondo.h"

namespace rondo::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "start N ranks of a program on this host and supervise them", run_command},
    {"bench", "measure and check collectives (nccl-tests' flags and table)", bench_command},
    {"doctor", "find problems of this machine, and say what to do", doctor_command},
    {"topo", "what Rondo sees of this host: cores, caches, memory, interfaces", topo_command},
    {"ps", "which call each rank of a process is in, and which rank it waits for", ps_command},
    {"explain", "which algorithm would run a call, and why", explain_command},
    {"simulate", "predict the time of a collective on GPUs that are not here", simulate_command},
    {"tune", "measure the costs of calls on this machine, for RONDO_TUNE_FILE", tune_command},
    {"env", "every environment variable: type, default, current value", env_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace rondo::cli

namespace {

using rondo::cli::Command;
using rondo::cli::commands;

void print_help(FILE* to) {
  fmt::print(to, "usage: rondo COMMAND [arguments]; rondo COMMAND --help says more\n\n");
  for (const Command& command : commands())
    fmt::print(to, "  {:<8} {}\n", command.name, command.summary);
  fmt::print(to,
             "\n  --version  the versions of Rondo and of the NCCL interface that it implements\n");
}

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

int print_version() {
  int nccl = 0;
  ncclGetVersion(&nccl);
  fmt::print("rondo {} (nccl {}, header {})\n", rondoGetVersion(), nccl, NCCL_VERSION_CODE);
  return 0;
}

int call(rondo::cli::CommandFunction run, std::string name, int argc, char** argv) {
  std::vector<char*> arguments{name.data()};
  arguments.insert(arguments.end(), argv, argv + argc);
  arguments.push_back(nullptr);
  return run(argc + 1, arguments.data());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view self = base_name(argc > 0 ? argv[0] : "rondo");
  if (self.ends_with("_perf")) return rondo::cli::bench_command(argc, argv);
  if (argc < 2) return print_help(stderr), rondo::cli::kUsageError;
  const std::string_view wanted = argv[1];
  if (wanted == "--help" || wanted == "-h" || wanted == "help") return print_help(stdout), 0;
  if (wanted == "--version" || wanted == "version") return print_version();
  for (const Command& command : commands())
    if (command.name == wanted)
      return call(command.run, fmt::format("rondo {}", wanted), argc - 2, argv + 2);
  fmt::print(stderr, "rondo: there is no command '{}'\n", wanted);
  print_help(stderr);
  return rondo::cli::kUsageError;
}
