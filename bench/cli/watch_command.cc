// SPDX-License-Identifier: Apache-2.0
// rondo watch: runs a program whose NCCL, or whose groups of torch's gloo, report their calls to
// librondo-watch.so, so that rondo ps and rondo trace see them; or prints the assignments that do
// so.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/command_line.h"

namespace rondo::cli {
namespace {

constexpr const char* kPlugin = "NCCL_PROFILER_PLUGIN";
constexpr const char* kNext = "RONDO_WATCH_NEXT";
constexpr const char* kGloo = "RONDO_TORCH_WATCH";  // api/torch/rondo/autoload.py

// The plugin that the user has named gets the events too.
void set_variables(const std::string& library) {
  const char* const named = std::getenv(kPlugin);
  if (named != nullptr && *named != '\0' && std::string_view(named) != "none" && named != library)
    setenv(kNext, named, 0);
  setenv(kPlugin, library.c_str(), 1);
  setenv(kGloo, "1", 1);
}

}  // namespace

int watch_command(int argc, char** argv) {
  std::vector<std::string> program;
  CommandLine line(
      "Runs a program, such as torchrun, with NCCL_PROFILER_PLUGIN set to librondo-watch.so. rondo "
      "ps and rondo trace then show the calls of NVIDIA's NCCL in it, and name the rank for which "
      "the others wait. A plugin that the variable names already gets the events too. "
      "RONDO_TORCH_WATCH does the same for gloo groups of PyTorch. Without a program it prints "
      "both "
      "assignments: env $(rondo watch) torchrun train.py.",
      argc, argv, kUsageError);
  line.option("program", program, "the program and its arguments, after --");
  line.end_options_at_positionals();
  if (const auto ended = line.parse()) return *ended;
  const auto library = installed_library("librondo-watch.so");
  if (!library.ok()) return line.refuse(library.error().text, 1);
  if (program.empty()) {
    fmt::print("{}={}\n{}=1\n", kPlugin, *library, kGloo);
    return 0;
  }
  set_variables(*library);
  std::vector<char*> words;
  for (std::string& word : program) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  constexpr int kNotFound = 127, kCannotRun = 126;  // as shells
  const int error = errno;
  return line.refuse(fmt::format("cannot run '{}': {}", program[0], std::strerror(error)),
                     error == ENOENT ? kNotFound : kCannotRun);
}

}  // namespace rondo::cli
