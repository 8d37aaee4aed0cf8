// SPDX-License-Identifier: Apache-2.0
// rondo ps: prints what the ranks of a job are doing now, and which rank the others wait for,
// without disturbing them; without a process, the jobs of this user.
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "bench/cli/ask_hosts.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "bench/standard_output.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "collectives/status/inspect.h"
#include "collectives/status/job_view.h"
#include "collectives/status/slow_links.h"

namespace rondo::cli {
namespace {

struct PsOptions {
  int pid = 0;
  bool one_job = false;  // pid is given
  bool json = false, hosts = false;
  NamedHosts named{};  // to be asked by ssh
};

// ---- one job ----

const ProcessView* process_of(const JobView& view, int pid) {
  for (const ProcessView& process : view.processes)
    if (process.pid == pid) return &process;
  return nullptr;
}

// Without a process id (the job was read from /proc) all ranks are of this host. The place of a
// rank that has not joined is unknown.
bool is_here(const RankView& rank, const ProcessView* asked) {
  return asked == nullptr || asked->process == 0 || rank.host == asked->host || rank.pid == 0;
}

std::string heading(const CommunicatorView& communicator, std::ptrdiff_t here) {
  std::string title = "communicator";
  if (communicator.hash != 0) title += ' ' + hash_text(communicator.hash);
  if (!communicator.name.empty()) title += ' ' + communicator.name;
  const std::string ranks = counted(communicator.size, "rank");
  if (communicator.joined >= 0)
    return fmt::format("{}: {}, {} joined", title, ranks, communicator.joined);
  return fmt::format("{}: {}, {} on this host", title, ranks, here);
}

// All ranks run, and none is in a call.
bool is_idle(const CommunicatorView& communicator) {
  return communicator.joined < 0 && std::all_of(communicator.ranks.begin(),
                                                communicator.ranks.end(), [](const RankView& rank) {
                                                  return rank.state == "running" && !rank.faulted &&
                                                         rank.waits_for < 0 &&
                                                         rank.finished >= rank.call;
                                                });
}

// Those for whose ranks others wait come first, the idle ones last.
std::vector<std::size_t> by_urgency(const JobView& view, const std::vector<Blame>& blamed) {
  std::vector<std::size_t> order(view.communicators.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto urgency = [&](std::size_t communicator) {
    const auto at = std::find_if(blamed.begin(), blamed.end(), [&](const Blame& blame) {
      return blame.communicator == communicator;
    });
    return std::pair(at - blamed.begin(), is_idle(view.communicators[communicator]));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return urgency(a) < urgency(b); });
  return order;
}

void print_ranks(const PsOptions& options, const CommunicatorView& communicator,
                 const ProcessView* asked) {
  for (const RankView& rank : communicator.ranks) {
    if (!options.hosts && !is_here(rank, asked)) continue;
    fmt::print("{} rank {:<4} pid {:<8} {}{}\n", rank.pid == options.pid ? '*' : ' ', rank.rank,
               rank.pid == 0 ? "?" : std::to_string(rank.pid),
               options.hosts ? fmt::format("{:<16} ", rank.host) : std::string(),
               rank.state == "silent" ? "no answer" : rank.doing);
  }
}

// A watched communicator has ranks on other hosts, and none of them is known.
bool knows_no_hosts(const JobView& view) {
  return std::any_of(view.communicators.begin(), view.communicators.end(), [](const auto& one) {
    return one.ranks.size() < static_cast<std::size_t>(one.size) && !one.ranks.empty() &&
           std::all_of(one.ranks.begin(), one.ranks.end(), [&](const RankView& rank) {
             return rank.watched && rank.host == one.ranks[0].host;
           });
  });
}

void print(const PsOptions& options, const JobView& view) {
  fmt::print("process {} ({})\n", options.pid, command_of(options.pid));
  const ProcessView* const asked = process_of(view, options.pid);
  const std::vector<Blame> blamed = diagnose(view);
  const std::vector<SlowLink> slow = slow_links(view);
  const std::vector<SharedCpu> shared = shared_cores(view);
  if (!blamed.empty() || !slow.empty() || !shared.empty()) fmt::print("\n");
  const bool colours = shows_colours();
  for (const Blame& blame : blamed) fmt::print("{}\n", coloured(blame.text, Colour::kRed, colours));
  for (const SlowLink& link : slow)
    fmt::print("{}\n", coloured(link.text, Colour::kYellow, colours));
  for (const SharedCpu& cpu : shared)
    fmt::print("{}; {}\n", coloured(cpu.text, Colour::kYellow, colours), kSharedCpuRemedy);
  bool was_idle = false, is_first = true;
  for (const std::size_t index : by_urgency(view, blamed)) {
    const CommunicatorView& communicator = view.communicators[index];
    const auto here = std::count_if(communicator.ranks.begin(), communicator.ranks.end(),
                                    [&](const RankView& rank) { return is_here(rank, asked); });
    const bool in_one_line = !is_first && is_idle(communicator);
    fmt::print("{}{}{}\n", in_one_line && was_idle ? "" : "\n", heading(communicator, here),
               in_one_line ? ", idle" : "");
    if (!in_one_line) print_ranks(options, communicator, asked);
    was_idle = in_one_line;
    is_first = false;
  }
  for (const std::string& silent : view.silent) fmt::print("\n{} did not answer\n", silent);
  if (options.hosts && options.named.hosts.empty() && knows_no_hosts(view))
    fmt::print("\nother hosts are not known here: name them, rondo ps {} --hosts NODE1,NODE2\n",
               options.pid);
}

Json blamed_json(const JobView& view) {
  Json blamed = Json::array();
  for (const Blame& blame : diagnose(view))
    blamed.push_back({{"communicator", hash_text(view.communicators[blame.communicator].hash)},
                      {"rank", blame.rank},
                      {"kind", name_of(blame.kind)},
                      {"waiters", blame.waiters},
                      {"waits_seconds", blame.seconds},
                      {"text", blame.text}});
  return blamed;
}

Json slow_json(const JobView& view) {
  Json all = Json::array();
  for (const SlowLink& link : slow_links(view)) all.push_back(json_of(link));
  return all;
}

// TCP to other hosts, by process and address.
Json links_json(const JobView& view) {
  Json all = Json::array();
  for (const ProcessView& process : view.processes)
    for (const LinkView& link : process.links) {
      all.push_back({{"host", process.host}, {"pid", process.pid}, {"to", json_of(link)}});
    }
  return all;
}

Json job_json(const PsOptions& options, const JobView& view) {
  const ProcessView* const asked = process_of(view, options.pid);
  Json all = Json::array();
  for (const CommunicatorView& communicator : view.communicators) {
    Json here = Json::array(), ranks = Json::array();
    for (const RankView& rank : communicator.ranks) {
      if (is_here(rank, asked)) here.push_back(json_of(rank));
      ranks.push_back(json_of(rank));
    }
    Json one{{"name", communicator.name},
             {"hash", hash_text(communicator.hash)},
             {"size", communicator.size},
             {"joined", communicator.joined},
             {"ranks_here", std::move(here)}};
    if (options.hosts) one["ranks"] = std::move(ranks);
    all.push_back(std::move(one));
  }
  return {{"pid", options.pid},
          {"command", command_of(options.pid)},
          {"blamed", blamed_json(view)},
          {"silent", view.silent},
          {"slow_links", slow_json(view)},
          {"links", links_json(view)},
          {"communicators", std::move(all)}};
}

int show_job(const PsOptions& options, const char* program) {
  auto found = ask_process(options.pid, options.hosts);
  const Status added =
      found.ok() && !options.named.hosts.empty() ? add_hosts(options.named, &*found) : ok_status();
  if (!found.ok() || !added.ok()) {
    fmt::print(stderr, "{}: {}\n", program, found.ok() ? added.error().text : found.error().text);
    return 1;
  }
  if (options.json) {
    fmt::print("{}\n", job_json(options, *found).text(2));
  } else {
    print(options, *found);
  }
  return 0;
}

// ---- the jobs of this user ----

struct JobLine {
  int pid = 0;  // the lowest
  std::string job, command, state;
  std::set<int> pids;
  int ranks = 0, size = 0;
};

JobLine job_line_of(const ListedJob& job) {
  JobLine line;
  line.pids.insert(job.silent.begin(), job.silent.end());
  line.pids.insert(job.foreign.begin(), job.foreign.end());
  for (const ProcessView& process : job.view.processes) {
    line.pids.insert(process.pid);
    if (line.job.empty()) line.job = process.job;
    if (line.command.empty()) line.command = process.command;
  }
  for (const CommunicatorView& communicator : job.view.communicators) {
    if (communicator.size < line.size) continue;
    line.size = communicator.size;
    line.ranks =
        static_cast<int>(std::count_if(communicator.ranks.begin(), communicator.ranks.end(),
                                       [](const RankView& rank) { return rank.pid != 0; }));
  }
  line.pid = *line.pids.begin();
  const std::vector<Blame> blamed = diagnose(job.view);
  line.state = blamed.empty() ? "running" : blamed.front().text;
  if (blamed.empty() && !job.foreign.empty())
    line.state =
        fmt::format("process {} answers with what is no status: use the rondo of its release",
                    job.foreign.front());
  if (blamed.empty() && !job.silent.empty())
    line.state = fmt::format("process {} does not answer", job.silent.front());
  if (line.command.empty()) line.command = command_of(line.pid);
  return line;
}

Json list_json(const std::vector<ListedJob>& jobs) {
  Json all = Json::array();
  for (const ListedJob& job : jobs) {
    const JobLine line = job_line_of(job);
    all.push_back({{"pid", line.pid},
                   {"job", line.job},
                   {"command", line.command},
                   {"pids", std::vector<int>(line.pids.begin(), line.pids.end())},
                   {"silent_pids", job.silent},
                   {"foreign_pids", job.foreign},
                   {"communicators", job.view.communicators.size()},
                   {"size", line.size},
                   {"ranks_here", line.ranks},
                   {"blamed", blamed_json(job.view)}});
  }
  return {{"jobs", std::move(all)}};
}

int show_list(const PsOptions& options, const char* program) {
  const auto jobs = list_jobs();
  if (!jobs.ok()) {
    fmt::print(stderr, "{}: {}\n", program, jobs.error().text);
    return 1;
  }
  if (options.json) return fmt::print("{}\n", list_json(*jobs).text(2)), 0;
  if (jobs->empty()) return fmt::print("no job of this user on this host\n"), 0;
  std::vector<JobLine> lines;
  constexpr std::size_t kWidest = 48;
  std::size_t width = 30;  // of the commands
  for (const ListedJob& job : *jobs) {
    lines.push_back(job_line_of(job));
    width = std::min(kWidest, std::max(width, lines.back().command.size()));
  }
  fmt::print("{:>8} {:>9} {:>11} {:<{}} {}\n", "PID", "PROCESSES", "RANKS", "COMMAND", width,
             "STATE");
  for (const JobLine& line : lines)
    fmt::print("{:>8} {:>9} {:>11} {:<{}.{}} {}\n", line.pid, line.pids.size(),
               fmt::format("{} of {}", line.ranks, line.size), line.command, width, width,
               line.state);
  return 0;
}

int show(const PsOptions& options, const char* program) {
  return options.one_job ? show_job(options, program) : show_list(options, program);
}

// Until the process ends or the user interrupts it.
int watch(const PsOptions& options, double seconds, const char* program) {
  for (;;) {
    if (isatty(1)) fmt::print("\x1b[H\x1b[2J");
    if (const int status = show(options, program); status != 0) return status;
    fflush(stdout);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
}

// For rondo ps on another host.
int show_views(const char* program) {
  const auto text = jobs_text();
  if (!text.ok()) {
    fmt::print(stderr, "{}: {}\n", program, text.error().text);
    return 1;
  }
  fmt::print("{}", *text);
  return 0;
}

// "NODE1,NODE2"; a number is the process: rondo ps --hosts PID.
void name_hosts(const std::string& text, bool has_process, PsOptions* options) {
  const bool is_pid =
      !text.empty() && text.find_first_not_of("0123456789") == std::string::npos && !has_process;
  if (is_pid) {
    options->pid = std::atoi(text.c_str());
    options->one_job = true;
    return;
  }
  std::istringstream names(text);
  for (std::string name; std::getline(names, name, ',');) options->named.hosts.push_back(name);
}

}  // namespace

int ps_command(int argc, char** argv) {
  PsOptions options;
  double seconds = 0;
  std::string named;
  bool views = false;
  CommandLine line(
      "Shows the jobs of this user on this host. With the id of a process: first the rank that the "
      "others wait for, then for each rank of its communicators the call, the step and the rank "
      "that it waits for. * marks ranks of the process itself. For a launcher (rondo run), its "
      "first "
      "rank is asked.",
      argc, argv, kUsageError);
  const CommandOption pid = line.option("pid", options.pid, "a process with ranks, or a launcher");
  const CommandOption hosts =
      line.option("--hosts", named,
                  "ask the processes of other hosts too; NODE1,NODE2: also these hosts, by ssh")
          .value_is_optional();
  line.option("--agent", options.named.agent, "ask named hosts by this command HOST COMMAND")
      .show_default()
      .needs(hosts);
  line.flag("--views", views, "print the jobs of this host for another rondo ps").hidden();
  line.flag("--json", options.json, "print JSON");
  const CommandOption watched =
      line.option("-w,--watch", seconds, "seconds; print again after each").within(0.1, 86400.0);
  if (const auto ended = line.parse()) return *ended;
  if (views) return show_views(argv[0]);
  options.one_job = pid.given();
  options.hosts = hosts.given();
  name_hosts(named, pid.given(), &options);
  if (options.hosts && !options.one_job)
    return line.refuse("--hosts needs a process: rondo ps PID --hosts");
  if (options.one_job) options.pid = process_with_ranks(options.pid);
  return watched.given() ? watch(options, seconds, argv[0]) : show(options, argv[0]);
}

}  // namespace rondo::cli
