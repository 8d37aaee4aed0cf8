// SPDX-License-Identifier: Apache-2.0
// rondo watch: runs a program whose NCCL, or whose groups of torch's gloo, report their calls to
// librondo-watch.so, so that rondo ps and rondo trace see them; or prints the assignments that do
// so.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"

namespace rondo::cli {
namespace {

constexpr const char* kPlugin = "NCCL_PROFILER_PLUGIN";
constexpr const char* kNext = "RONDO_WATCH_NEXT";
constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kJob = "RONDO_WATCH_JOB";
constexpr const char* kGloo = "RONDO_TORCH_WATCH";  // api/torch/rondo/autoload.py
constexpr const char* kSecret = "RONDO_WATCH_SECRET";

using Assignments = std::vector<std::pair<const char*, std::string>>;

// mpi: librondo-watch-mpi.so; "": not wanted.
Assignments assignments(const std::string& library, const std::string& mpi) {
  Assignments all;
  // The plugin that the user has named gets the events too.
  const char* const named = std::getenv(kPlugin);
  if (named != nullptr && *named != '\0' && std::string_view(named) != "none" && named != library &&
      std::getenv(kNext) == nullptr)
    all.push_back({kNext, named});
  all.push_back({kPlugin, library});
  all.push_back({kGloo, "1"});
  if (mpi.empty()) return all;
  std::uint64_t job = 0;
  fill_random(std::as_writable_bytes(std::span(&job, 1)));
  all.push_back({kJob, std::to_string(job)});
  const char* const preloaded = std::getenv(kPreload);
  all.push_back({kPreload, preloaded == nullptr || *preloaded == '\0'
                               ? mpi
                               : fmt::format("{}:{}", mpi, preloaded)});
  return all;
}

// For ranks of other hosts that a launcher starts with this environment. It is not printed: other
// users see the words of `env`.
void draw_secret() {
  if (std::getenv("RONDO_SECRET") != nullptr || std::getenv(kSecret) != nullptr) return;
  std::uint64_t words[4] = {};
  fill_random(std::as_writable_bytes(std::span(words)));
  setenv(kSecret, fmt::format("{:016x}", fmt::join(words, "")).c_str(), 1);
}

}  // namespace

int watch_command(int argc, char** argv) {
  std::vector<std::string> program;
  CommandLine line(
      "Runs a program, such as torchrun, with NCCL_PROFILER_PLUGIN set to librondo-watch.so. rondo "
      "ps and rondo trace then show the calls of NVIDIA's NCCL in it, and name the rank for which "
      "the others wait. A plugin that the variable names already gets the events too. "
      "RONDO_TORCH_WATCH does the same for gloo groups of PyTorch, and --mpi for calls of MPI. "
      "Without a program it prints the assignments: env $(rondo watch) torchrun train.py.",
      argc, argv, kUsageError);
  bool mpi = false;
  line.flag("--mpi", mpi, "preload librondo-watch-mpi.so: MPI's calls are shown too");
  line.option("program", program, "the program and its arguments, after --");
  line.end_options_at_positionals();
  if (const auto ended = line.parse()) return *ended;
  const auto library = installed_library("librondo-watch.so");
  if (!library.ok()) return line.refuse(library.error().text, 1);
  const auto for_mpi =
      mpi ? installed_library("librondo-watch-mpi.so") : Result<std::string>(std::string());
  if (!for_mpi.ok()) return line.refuse(for_mpi.error().text, 1);
  for (const auto& [name, value] : assignments(*library, *for_mpi)) {
    if (program.empty()) fmt::print("{}={}\n", name, value);
    setenv(name, value.c_str(), 1);
  }
  if (program.empty()) return 0;
  draw_secret();
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
