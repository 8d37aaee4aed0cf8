// SPDX-License-Identifier: Apache-2.0
// rondo completion: the scripts by which shells complete commands and options. cmake --install
// writes them from here, too.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/command_line.h"

namespace rondo::cli {
namespace {

struct Completion {
  std::string_view shell, script;
};
constexpr Completion kCompletions[] = {
#include "completions.inc"
};

}  // namespace

int completion_command(int argc, char** argv) {
  std::vector<std::string> shells;
  for (const Completion& one : kCompletions) shells.emplace_back(one.shell);
  std::string shell;
  CommandLine line(
      "Prints the script by which a shell completes rondo's commands and options:\n"
      "  bash: source <(rondo completion bash) in ~/.bashrc\n"
      "  zsh:  rondo completion zsh > ~/.zfunc/_rondo, a folder of fpath, before compinit\n"
      "  fish: rondo completion fish > ~/.config/fish/completions/rondo.fish\n"
      "Debian packages and cmake --install put them in their places.",
      argc, argv, kUsageError);
  line.option("shell", shell, "the shell").required().one_of(shells);
  if (const auto ended = line.parse()) return *ended;
  const auto found = std::find_if(std::begin(kCompletions), std::end(kCompletions),
                                  [&](const Completion& one) { return one.shell == shell; });
  fmt::print("{}", found->script);
  return 0;
}

}  // namespace rondo::cli
