// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/self_test.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "api/launch_env.h"
#include "base/printable.h"
#include "bench/backend.h"
#include "bench/runner/job.h"
#include "bench/self_test.h"
#include "bench/standard_output.h"
#include "topology/cpu_budget.h"

namespace rondo::cli {
namespace {

constexpr int kFirstPort = 20'000, kPorts = 10'000;  // as for steps of Slurm

// Each process of the job runs the agent, which starts one rank on its host. The secret goes
// through the agent's standard input: command lines are visible to other users.
constexpr const char* kStartByAgent = R"(per=$1; program=$2; port=$3; agent=$4; options=$5; shift 5
host=$(shift $((RANK / per)); echo "$1")
printf '%s\n' "$RONDO_SECRET" | $agent "$host" "read -r RONDO_SECRET; export RONDO_SECRET \
RANK=$RANK WORLD_SIZE=$WORLD_SIZE LOCAL_RANK=$((RANK % per)) LOCAL_WORLD_SIZE=$per \
MASTER_ADDR=${1#*@} MASTER_PORT=$port; exec $program --as-rank doctor --self-test $options"
)";

bool is_word(std::string_view text) {
  return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._-:@%/").find(c) != std::string_view::npos;
  });
}

std::string options_of(const SelfTestCommand& command) {
  return fmt::format("--minutes {}{}{}{}", command.minutes, command.quick ? " --quick" : "",
                     command.strict ? " --strict" : "", command.json ? " --json" : "");
}

Result<int> start(const SelfTestCommand& command, int ranks) {
  runner::JobOptions job;
  job.passthrough = true;
  job.quiet = true;
  job.patience_seconds = 3;  // the failed rank has printed its error; the others print theirs
  const std::string program = runner::own_program();
  if (command.hosts.empty()) {
    job.ranks = ranks;
    job.argv = runner::own_ranks();
    job.argv.insert(job.argv.end(),
                    {"doctor", "--self-test", "--minutes", fmt::format("{}", command.minutes)});
    if (command.quick) job.argv.emplace_back("--quick");
    if (command.strict) job.argv.emplace_back("--strict");
    if (command.json) job.argv.emplace_back("--json");
    return runner::run_job(job);
  }
  for (const std::string& host : command.hosts)
    if (!is_word(host))
      return fail(StatusCode::kInvalidArgument, "--hosts: '{}' is not a host's name", host);
  if (!is_word(program))
    return fail(StatusCode::kInvalidArgument,
                "--hosts: '{}' has characters that a remote shell may read otherwise: call rondo "
                "by another path",
                program);
  job.ranks = ranks * static_cast<int>(command.hosts.size());
  job.argv = {"sh",
              "-c",
              kStartByAgent,
              "self-test",
              fmt::format("{}", ranks),
              program,
              fmt::format("{}", kFirstPort + getpid() % kPorts),
              command.agent,
              options_of(command)};
  job.argv.insert(job.argv.end(), command.hosts.begin(), command.hosts.end());
  return runner::run_job(job);
}

// This host's other problems, from its first rank.
std::string own_findings(const rondo_launch_t& launch) {
  if (launch.local_rank > 0) return "";
  ExamineOptions options;
  options.ranks = std::max(launch.local_size, 0);
  std::vector<Finding> findings;
  for (Finding& finding : examine(options)) {
    if (finding.verdict == Verdict::kOk) continue;
    findings.push_back(std::move(finding));
  }
  return packed(findings);
}

int take_part(const SelfTestCommand& command, const rondo_launch_t& launch) {
  bench::SelfTestOptions options;
  options.seconds = 60 * command.minutes;
  if (command.quick) options.types = {ncclFloat32};
  const bool terminal = launch.rank == 0 && isatty(2) == 1;
  const auto tested = bench::run_self_test({.options = options,
                                            .launch = launch,
                                            .make_backend = bench::make_rondo_backend,
                                            .progress = terminal ? stderr : nullptr,
                                            .mine = own_findings(launch)});
  if (!tested.ok()) {
    fmt::print(stderr, "rondo doctor: rank {}: {}\n", launch.rank, tested.error().text);
    return 1;
  }
  if (launch.rank != 0) {
    for (const std::string& error : tested->errors)
      fmt::print(stderr, "rondo doctor: rank {}: {}\n", launch.rank, error);
    return 0;  // rank 0's status counts
  }
  const std::vector<Finding> findings = findings_of(*tested);
  fmt::print("{}", command.json ? json_of(*tested, findings)
                                : page_of(*tested, findings, shows_colours()));
  std::fflush(stdout);
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.verdict == Verdict::kProblem ||
           (command.strict && finding.verdict == Verdict::kWarning);
  });
}

}  // namespace

Result<int> run_self_test_command(const SelfTestCommand& command) {
  rondo_launch_t launch;
  const int launched = rondo_launch_read(&launch);
  if (launched < 0) return 1;  // it has printed why
  const int ranks = command.ranks > 0 ? command.ranks : std::max(2, topology::usable_cores());
  const bool is_started = launched == 1 || *launch.source != '\0';
  const bool alone = ranks == 1 && command.hosts.empty();
  if (!is_started && !alone) return start(command, ranks);
  if (!command.hosts.empty())
    return fail(StatusCode::kInvalidArgument,
                "--hosts, but the launcher started {} already ({}): leave one out",
                counted(launch.size, "process"), launch.source);
  if (is_started && command.ranks > 0 && command.ranks != launch.size)
    return fail(StatusCode::kInvalidArgument, "--ranks {}, but the launcher started {} ({})",
                command.ranks, counted(launch.size, "process"), launch.source);
  return take_part(command, launch);
}

}  // namespace rondo::cli
