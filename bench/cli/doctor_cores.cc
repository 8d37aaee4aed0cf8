// SPDX-License-Identifier: Apache-2.0
// rondo doctor: how far apart the usable cores are, and which jobs have ranks that share one.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "base/thread.h"
#include "bench/cli/doctor_checks.h"
#include "collectives/status/job_view.h"
#include "kernels/host/core_distance.h"
#include "kernels/host/nudge.h"
#include "kernels/host/store_choice.h"
#include "topology/cpu_budget.h"

namespace rondo::cli {
namespace {

constexpr int kMaxCores = 32;  // 0.1 ms each, 2 ms where another program keeps one

// Moves this thread; false if the CPU has gone.
bool move_to(int cpu) {
  host::CoreMask only;
  if (cpu >= host::CoreMask::kCores) return false;
  only.set(cpu);
  return host::HostCores::set_mask(only);
}

// ns in which a cache line goes from one CPU to the other; 0: they did not answer.
double exchange(int first, int second) {
  StepLine lines[2] = {};
  std::vector<PeerPort> peers(2);
  for (int r = 0; r < 2; ++r) peers[static_cast<std::size_t>(r)].steps = &lines[r];
  double found[2] = {};
  std::vector<Thread> threads;
  for (const int r : {0, 1}) {
    auto started = Thread::start(
        "the distance of cores",
        [&, r] {
          if (move_to(r == 0 ? first : second))
            found[r] = host::CoreDistance<>(peers, r).farthest();
        },
        [](const Error&) {});
    if (started.ok()) threads.push_back(std::move(*started));
  }
  for (Thread& thread : threads) thread.join();
  return std::min(found[0], found[1]);
}

// The lowest process id, by which `rondo ps` names a job.
int pid_of(const ListedJob& job) {
  int lowest = 0;
  for (const ProcessView& process : job.view.processes)
    if (lowest == 0 || process.pid < lowest) lowest = process.pid;
  return lowest;
}

}  // namespace

std::vector<Finding> core_findings(const topology::CpuList& cpus, const CoreExchange& exchange) {
  if (cpus.size() < 2) return {};
  const std::size_t step = (cpus.size() - 2) / kMaxCores + 1;
  double nearest = 0, farthest = 0;
  int far_cpu = 0, unanswered = 0;
  for (std::size_t i = 1; i < cpus.size(); i += step) {
    const double ns = exchange(cpus[0], cpus[i]);
    if (ns == 0) ++unanswered;
    if (ns > 0 && (nearest == 0 || ns < nearest)) nearest = ns;
    if (ns > farthest) farthest = ns, far_cpu = cpus[i];
  }
  if (farthest == 0)
    return {{Verdict::kOk, "distance of cores", "unknown: other programs keep the cores", ""}};
  std::string text =
      fmt::format("a cache line takes {:.0f} ns from CPU {} to CPU {}", farthest, cpus[0], far_cpu);
  if (nearest < farthest) text += fmt::format(", {:.0f} ns to the nearest", nearest);
  text += farthest < host::StoreChoice::kFarNs
              ? ": near"
              : ": far; ranks on them store data for each other past the caches";
  if (unanswered > 0) text += fmt::format("; {} did not answer", unanswered);
  return {{Verdict::kOk, "distance of cores", text, ""}};
}

std::vector<Finding> job_findings(const std::vector<ListedJob>& first,
                                  const std::vector<ListedJob>& second) {
  std::set<std::tuple<int, int, std::vector<int>>> before;  // job, CPU, ranks
  for (const ListedJob& job : first)
    for (const SharedCpu& shared : shared_cores(job.view))
      before.emplace(pid_of(job), shared.cpu, shared.ranks);
  std::vector<Finding> findings;
  for (const ListedJob& job : second)
    for (const SharedCpu& shared : shared_cores(job.view))
      if (before.count({pid_of(job), shared.cpu, shared.ranks}) != 0)
        findings.push_back({Verdict::kWarning, "shared core",
                            fmt::format("job of process {}: {}", pid_of(job), shared.text),
                            kSharedCpuRemedy});
  return findings;
}

std::vector<Finding> check_jobs() {
  const auto first = list_jobs();
  if (!first.ok() || first->empty()) return {};
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto second = list_jobs();
  return second.ok() ? job_findings(*first, *second) : std::vector<Finding>();
}

std::vector<Finding> check_cores() { return core_findings(topology::affinity_cpus(), exchange); }

}  // namespace rondo::cli
