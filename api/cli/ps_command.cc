// rondo ps: prints what the ranks of a process's communicators are doing now, without disturbing
// them.
#include <fmt/format.h>

#include "api/cli/commands.h"
#include "bench/command_line.h"
#include "collectives/communicator/inspect.h"

namespace rondo::cli {
namespace {

void print(int pid, const std::vector<CommunicatorView>& communicators) {
  fmt::print("process {} ({})\n", pid, command_of(pid));
  for (const CommunicatorView& communicator : communicators) {
    fmt::print("\ncommunicator{}{}: {} ranks, {} on this host\n",
               communicator.name.empty() ? "" : " ", communicator.name, communicator.size,
               communicator.ranks.size());
    for (const RankView& rank : communicator.ranks)
      fmt::print("{} rank {:<4} pid {:<8} {}\n", rank.pid == pid ? '*' : ' ', rank.rank, rank.pid,
                 rank.doing);
  }
}

}  // namespace

int ps_command(int argc, char** argv) {
  int pid = 0;
  CommandLine line(
      "Shows the communicators of a process (the first 64): which rank is in which call, how far, "
      "and whom it waits for. * marks ranks of the process itself. Of a launcher (rondo run), its "
      "first rank is shown.",
      argc, argv, kUsageError);
  line.option("pid", pid, "a process with ranks").required();
  if (const auto ended = line.parse()) return *ended;
  pid = process_with_ranks(pid);
  const auto found = inspect_process(pid);
  if (!found.ok()) {
    fmt::print(stderr, "{}: {}\n", argv[0], found.error().text);
    return 1;
  }
  print(pid, *found);
  return 0;
}

}  // namespace rondo::cli
