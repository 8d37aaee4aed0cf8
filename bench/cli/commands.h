// SPDX-License-Identifier: Apache-2.0
// The subcommands of rondo. To add one: a file NAME_command.cc with one function, its declaration
// here, and a row in main.cc (docs/internals/contributing.md, "Add a command").
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo::cli {

// argv[0] is the command's name in messages ("rondo run"); the rest are its arguments. Returns the
// exit status.
using CommandFunction = int (*)(int argc, char** argv);

struct Command {
  std::string_view name;
  std::string_view summary;  // one line of `rondo --help`
  CommandFunction run;
};

std::span<const Command> commands();

int bench_command(int argc, char** argv);
int completion_command(int argc, char** argv);
int doctor_command(int argc, char** argv);
int env_command(int argc, char** argv);
int explain_command(int argc, char** argv);
int preload_command(int argc, char** argv);
int ps_command(int argc, char** argv);
int run_command(int argc, char** argv);
int simulate_command(int argc, char** argv);
int topo_command(int argc, char** argv);
int trace_command(int argc, char** argv);
int tune_command(int argc, char** argv);
int watch_command(int argc, char** argv);

// The absolute path of a library of this installation (libnccl.so.2, librondo-watch.so); an error
// that says what to install if there is none.
Result<std::string> installed_library(const std::string& name);
// libnccl.so.2, for `rondo preload` and `rondo run --preload`.
Result<std::string> preload_library();

// Exit status for a wrong command line.
inline constexpr int kUsageError = 2;

}  // namespace rondo::cli
