// rondo ps: prints what the ranks of a process's communicators are doing now, without disturbing
// them.
#include <fmt/format.h>

#include "api/cli/commands.h"
#include "base/json.h"
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

void print_json(int pid, const std::vector<CommunicatorView>& communicators) {
  Json all = Json::array();
  for (const CommunicatorView& communicator : communicators) {
    Json ranks = Json::array();
    for (const RankView& rank : communicator.ranks)
      ranks.push_back({{"rank", rank.rank},
                       {"pid", rank.pid},
                       {"state", rank.state},
                       {"faulted", rank.faulted},
                       {"call", rank.call},
                       {"finished_call", rank.finished},
                       {"step", rank.step},
                       {"waits_for", rank.waits_for},
                       {"doing", rank.doing}});
    all.push_back({{"name", communicator.name},
                   {"size", communicator.size},
                   {"ranks_here", std::move(ranks)}});
  }
  const Json document{
      {"pid", pid}, {"command", command_of(pid)}, {"communicators", std::move(all)}};
  fmt::print("{}\n", document.text(2));
}

}  // namespace

int ps_command(int argc, char** argv) {
  int pid = 0;
  bool json = false;
  CommandLine line(
      "Shows the communicators of a process (the first 64): which rank is in which call, how far, "
      "and whom it waits for. * marks ranks of the process itself. Of a launcher (rondo run), its "
      "first rank is shown.",
      argc, argv, kUsageError);
  line.option("pid", pid, "a process with ranks").required();
  line.flag("--json", json, "print JSON");
  if (const auto ended = line.parse()) return *ended;
  pid = process_with_ranks(pid);
  const auto found = inspect_process(pid);
  if (!found.ok()) {
    fmt::print(stderr, "{}: {}\n", argv[0], found.error().text);
    return 1;
  }
  json ? print_json(pid, *found) : print(pid, *found);
  return 0;
}

}  // namespace rondo::cli
