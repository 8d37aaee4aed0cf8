// SPDX-License-Identifier: Apache-2.0
// The rondo command. Also runs under nccl-tests' program names: a link all_reduce_perf -> rondo is
// `rondo bench all_reduce` with nccl-tests' own columns and defaults.
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "api/rondo.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "bench/runner/job.h"
#include "bench/standard_output.h"

namespace rondo::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "start N ranks of a program on this host and supervise them", run_command},
    {"bench", "measure and check collectives (nccl-tests' flags and table)", bench_command},
    {"doctor", "find problems of this machine, and say what to do", doctor_command},
    {"topo", "what Rondo sees of this host: cores, caches, memory, interfaces", topo_command},
    {"ps", "which call each rank of a process is in, and which rank it waits for", ps_command},
    {"trace", "the newest calls of a job's ranks: which rank came late, and traces for viewers",
     trace_command},
    {"explain", "which algorithm would run a call, and why", explain_command},
    {"simulate", "predict the time of a collective on GPUs that are not here", simulate_command},
    {"tune", "measure the costs of calls on this machine, for RONDO_TUNE_FILE", tune_command},
    {"preload", "the LD_PRELOAD=... that runs an NCCL program on Rondo", preload_command},
    {"watch", "run a program whose NCCL reports its calls, so that ps and trace see them",
     watch_command},
    {"env", "every environment variable: type, default, current value", env_command},
    {"completion", "the script by which bash, zsh or fish completes this command",
     completion_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace rondo::cli

namespace {

using rondo::cli::Command;
using rondo::cli::commands;

void print_help(FILE* to) {
  fmt::print(to, "usage: rondo COMMAND [arguments]; rondo COMMAND --help says more\n\n");
  std::size_t width = 0;
  for (const Command& command : commands()) width = std::max(width, command.name.size());
  for (const Command& command : commands())
    fmt::print(to, "  {:<{}} {}\n", command.name, width, command.summary);
  fmt::print(to,
             "\n  --version  the versions of Rondo and of the NCCL interface that it implements\n"
             "  --man      the manual page: rondo --man | man -l -; rondo COMMAND --man: a "
             "command's\n");
}

// For completions: a command and its summary a line.
void print_commands() {
  for (const Command& command : commands()) fmt::print("{}\t{}\n", command.name, command.summary);
}

void print_manual() {
  fmt::print(".TH RONDO 1\n.SH NAME\nrondo \\- collectives on CPUs and GPUs\n");
  fmt::print(".SH SYNOPSIS\n.B rondo\nCOMMAND [arguments]\n.SH COMMANDS\n");
  for (const Command& command : commands())
    fmt::print(".TP\n.BR rondo\\-{} (1)\n{}\n", command.name, command.summary);
}

const Command* find(std::string_view name) {
  for (const Command& command : commands())
    if (command.name == name) return &command;
  return nullptr;
}

int refuse(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  rondo::print_error("rondo", rondo::there_is_no("command", name, names));
  return rondo::cli::kUsageError;
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

int run(int argc, char** argv) {
  const std::string_view self = base_name(argc > 0 ? argv[0] : "rondo");
  if (self.ends_with("_perf")) return rondo::cli::bench_command(argc, argv);
  if (argc < 2) return print_help(stderr), rondo::cli::kUsageError;
  const std::string_view wanted = argv[1];
  if (wanted == "help" && argc == 3) {
    char help[] = "--help";
    char* only[] = {help};
    if (const Command* command = find(argv[2]))
      return call(command->run, fmt::format("rondo {}", command->name), 1, only);
    return refuse(argv[2]);
  }
  if (wanted == "--help" || wanted == "-h" || wanted == "help") return print_help(stdout), 0;
  if (wanted == "--version" || wanted == "version") return print_version();
  if (wanted == "--list-options") return print_commands(), 0;
  if (wanted == "--man") return print_manual(), 0;
  if (const Command* command = find(wanted))
    return call(command->run, fmt::format("rondo {}", wanted), argc - 2, argv + 2);
  return refuse(wanted);
}

}  // namespace

int main(int argc, char** argv) {
  rondo::open_standard_streams();
  if (argc > 1 && argv[1] == rondo::runner::kRankOption) {
    rondo::runner::mark_as_rank();
    argv[1] = argv[0];
    ++argv, --argc;
  }
  std::string name(base_name(argc > 0 ? argv[0] : "rondo"));
  if (argc > 1 && find(argv[1]) != nullptr) name += fmt::format(" {}", argv[1]);
  return rondo::with_standard_output(name, [&] { return run(argc, argv); });
}
