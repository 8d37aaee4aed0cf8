// SPDX-License-Identifier: Apache-2.0
// rondo run -n N -- program arguments
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/env.h"
#include "bench/cli/commands.h"
#include "bench/cli/thread_ranks.h"
#include "bench/command_line.h"
#include "bench/runner/job.h"
#include "topology/cpu_budget.h"
#include "topology/deal_cpus.h"
#include "topology/host_topology.h"

namespace rondo::cli {

namespace {

// mpirun's -np is -n. Stops at the program, whose arguments are its own.
void accept_np(int argc, char** argv) {
  static char n[] = "-n";
  for (int i = 1; i < argc && argv[i][0] == '-' && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) != "-np") continue;
    argv[i++] = n;
    return;
  }
}

// In front of what is preloaded already.
Status preload() {
  RONDO_TRY(const std::string library, preload_library());
  const char* before = std::getenv("LD_PRELOAD");
  const std::string all = before == nullptr ? library : library + ":" + before;
  setenv("LD_PRELOAD", all.c_str(), 1);
  return ok_status();
}

topology::Binding binding_of(const std::string& bind, int ranks) {
  using topology::Binding;
  if (bind == "cores") return Binding::kCores;
  if (bind == "numa") return Binding::kNumaNodes;
  const bool helps =
      bind == "share" && ranks > 1 && topology::may_bind_shares(topology::cpu_budget(), ranks);
  return helps ? Binding::kShare : Binding::kNone;
}

// What ranks need that can fail before any of them starts.
Status prepare(topology::Binding binding, runner::JobOptions* job) {
  if (binding != topology::Binding::kNone) {
    RONDO_TRY(const topology::HostTopology host, topology::discover());
    job->cpus = deal_cpus(host, topology::affinity_cpus(), binding, job->ranks);
  }
  if (job->log_folder.empty()) return ok_status();
  std::error_code error;
  std::filesystem::create_directories(job->log_folder, error);
  if (!error) return ok_status();
  return fail(StatusCode::kSystemError, "--log-dir {}: {}", job->log_folder, error.message());
}

}  // namespace

int run_command(int argc, char** argv) {
  runner::JobOptions job;
  job.ranks = topology::usable_cores();
  bool no_prefix = false, threads = false, preloaded = false;
  std::string bind = "share";
  accept_np(argc, argv);
  CommandLine line(
      "Starts N processes of a program on this host. As torchrun does, it sets RANK, WORLD_SIZE, "
      "LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each; besides, RONDO_JOB, a "
      "random RONDO_SECRET unless there is one, and NCCL_DEBUG=VERSION unless it is set: one line "
      "on "
      "stderr then says that Rondo serves the program. Exits with the status of the first rank "
      "that "
      "failed (128 + signal for a signal).",
      argc, argv, kUsageError);
  line.option("-n,--ranks", job.ranks, "number of ranks").within(1, 4096).show_default();
  line.flag("--threads", threads,
            "ranks are threads of one process; the program is a shared object (cc -shared "
            "-fPIC) whose main() is one rank");
  line.flag("--preload", preloaded,
            "the program runs on Rondo in NCCL's place (LD_PRELOAD, see rondo preload)");
  line.flag("--no-prefix", no_prefix, "do not put [rank] before every line");
  line.flag("--keep-going", job.keep_going,
            "a rank that fails does not end the others (programs that survive failures)");
  line.option("--grace", job.grace_seconds, "seconds from TERM to KILL when a job is ended")
      .within(0.0, 3600.0)
      .show_default();
  line.option("--master-port", job.master_port, "MASTER_PORT; else one that is free")
      .within(1, 65535);
  const CommandOption binds =
      line.option("--bind", bind,
                  "share: each rank keeps to its share of the cores, if there are as many cores as "
                  "ranks; cores: to one core; numa: to a NUMA node; none: the kernel moves ranks. "
                  "Ranks are dealt in order")
          .one_of(std::vector<std::string>{"share", "cores", "numa", "none"})
          .show_default();
  line.option("--log-dir", job.log_folder,
              "rank N's output also goes to DIR/N.log, without prefix; makes the folder");
  line.option("program", job.argv, "the program and its arguments, after --").required();
  line.end_options_at_positionals();
  if (const auto ended = line.parse()) return *ended;
  if (!env::raw("NCCL_DEBUG")) setenv("NCCL_DEBUG", "VERSION", 1);
  if (preloaded) {
    if (const Status found = preload(); !found.ok()) return line.refuse(found.error().text);
  }
  if (threads && (binds.given() || !job.log_folder.empty()))
    return line.refuse("--bind and --log-dir are for processes: leave --threads out");
  const auto binding = threads ? topology::Binding::kNone : binding_of(bind, job.ranks);
  if (const Status done = prepare(binding, &job); !done.ok()) return line.refuse(done.error().text);
  if (threads) return run_threads({job.argv, job.ranks, job.master_port, job.keep_going});
  job.prefix = !no_prefix;
  return runner::run_job(job);
}

}  // namespace rondo::cli
