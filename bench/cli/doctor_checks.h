// SPDX-License-Identifier: Apache-2.0
// examine(): finds what can make Rondo fail or run slowly on this machine. Each check is a function
// that returns one or more findings.
//
// Checks read /proc, /sys, resource limits, the environment and the GPU driver's answers. They
// change nothing and take milliseconds, except for a first context on a GPU. `root` is a prefix for
// /proc and /sys, so that tests can simulate a machine.
//
//   for (const Finding& finding : examine({.ranks = 8})) print(finding);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/status/ask.h"
#include "topology/cpu_budget.h"
#include "transport/verbs/devices.h"

namespace rondo::cli {

enum class Verdict { kOk, kWarning, kProblem };

struct Finding {
  Verdict verdict;
  std::string subject;  // "file descriptors"
  std::string text;     // what was found, with values
  std::string remedy;   // what to do; empty: nothing
};

struct ExamineOptions {
  std::string root;
  int ranks = 0;  // planned ranks on this host; 0: unknown
};

std::vector<Finding> examine(const ExamineOptions& options);

// The single checks, for tests. environment: as in environ ("NCCL_ALGO=ring").
std::vector<Finding> check_environment(const std::vector<std::string>& environment);
std::vector<Finding> check_processors(const ExamineOptions& options);
std::vector<Finding> check_cores();  // doctor_cores.cc; of the usable ones, by threads on them
std::vector<Finding> check_jobs();   // doctor_cores.cc; this user's, where ranks share a core
std::vector<Finding> check_limits();
std::vector<Finding> check_kernel();
std::vector<Finding> check_memory(const ExamineOptions& options);
std::vector<Finding> check_network(const ExamineOptions& options);
std::vector<Finding> check_devices(const ExamineOptions& options);  // doctor_devices.cc
std::vector<Finding> check_tuner();                                 // doctor_devices.cc
std::vector<Finding> check_profiler();                              // doctor_devices.cc
std::vector<Finding> check_rdma(const ExamineOptions& options);     // doctor_rdma.cc

// What check_cores() finds. exchange: ns in which a cache line goes from one CPU to the other; 0:
// they did not answer.
using CoreExchange = std::function<double(int first, int second)>;
std::vector<Finding> core_findings(const topology::CpuList& cpus, const CoreExchange& exchange);

// What check_jobs() finds: ranks that made their newest calls on one CPU at both looks, which lie
// 0.2 s apart. Ranks that share it for a moment move by themselves (kernels/host/nudge.h).
std::vector<Finding> job_findings(const std::vector<ListedJob>& first,
                                  const std::vector<ListedJob>& second);

// Facts that check_rdma() reads, and the findings that it derives from them.
struct RdmaFacts {
  std::vector<verbs::Port> ports{};
  Result<std::vector<std::string>> offered = std::vector<std::string>{};  // by libibverbs
  std::uint64_t locked_limit = 0;                                         // RLIMIT_MEMLOCK
};
std::vector<Finding> rdma_findings(const RdmaFacts& facts);
// asked: NCCL_NET. version: that of the library, or the error why it cannot be used.
std::vector<Finding> ucx_findings(std::string_view asked, const Result<std::string>& version);

}  // namespace rondo::cli
