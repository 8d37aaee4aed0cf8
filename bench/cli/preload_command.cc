// SPDX-License-Identifier: Apache-2.0
// rondo preload: prints the assignment that puts Rondo in NCCL's place for one command.
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "bench/runner/job.h"

namespace rondo::cli {
namespace {

// From the folder of this program, the most capable library first: that of the package for CUDA
// (Debian's, then the wheel's), then those for host memory: of a Debian package, an install prefix
// or a wheel, and a build folder.
constexpr const char* kPlaces[] = {("../" RONDO_LIBDIR "/rondo-cuda"), "../../rondo_cu13/lib",
                                   ("../" RONDO_LIBDIR "/rondo"), ("../" RONDO_LIBDIR), "../lib"};

}  // namespace

Result<std::string> preload_library() { return installed_library("libnccl.so.2"); }

Result<std::string> installed_library(const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path here = fs::path(runner::own_program()).parent_path();
  std::error_code ignored;
  for (const char* place : kPlaces) {
    const fs::path found = fs::weakly_canonical(here / place / name, ignored);
    if (fs::exists(found, ignored)) return found.string();
  }
  return fail(
      StatusCode::kSystemError,
      "there is no {} beside {}: install the package that has it (librondo1, or pip install "
      "rondo-ccl), or build the targets nccl_shared and rondo_watch",
      name, runner::own_program());
}

int preload_command(int argc, char** argv) {
  CommandLine line(
      "Prints LD_PRELOAD=PATH of Rondo's libnccl.so.2, to be put before the command of an NCCL "
      "program: env $(rondo preload) torchrun train.py. The library for CUDA is taken if it is "
      "installed.",
      argc, argv, kUsageError);
  if (const auto ended = line.parse()) return *ended;
  const auto library = preload_library();
  if (!library.ok()) return line.refuse(library.error().text, 1);
  fmt::print("LD_PRELOAD={}\n", *library);
  return 0;
}

}  // namespace rondo::cli
