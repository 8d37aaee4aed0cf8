// What on this machine will bite Rondo: one check a function, each giving one finding or more.
//
// Checks read /proc, /sys, resource limits, the environment and what the driver says of GPUs; they
// change nothing and, but for a first context on a GPU, take some milliseconds. `root` stands
// before /proc and /sys, so that tests can pretend a machine.
//
//   for (const Finding& finding : examine({.ranks = 8})) print(finding);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/verbs/devices.h"

namespace rondo::cli {

enum class Verdict { kOk, kWarning, kProblem };

struct Finding {
  Verdict verdict;
  std::string subject;  // "file descriptors"
  std::string text;     // what was found, with the number
  std::string remedy;   // what to do; empty where nothing need be done
};

struct ExamineOptions {
  std::string root;
  int ranks = 0;  // how many are meant to run on this host; 0: not said
};

std::vector<Finding> examine(const ExamineOptions& options);

// The parts, for tests. Environment: names as in environ ("NCCL_ALGO=ring").
std::vector<Finding> check_environment(const std::vector<std::string>& environment);
std::vector<Finding> check_processors(const ExamineOptions& options);
std::vector<Finding> check_limits();
std::vector<Finding> check_kernel();
std::vector<Finding> check_memory(const ExamineOptions& options);
std::vector<Finding> check_network(const ExamineOptions& options);
std::vector<Finding> check_devices(const ExamineOptions& options);  // doctor_devices.cc
std::vector<Finding> check_tuner();                                 // doctor_tuner.cc
std::vector<Finding> check_rdma(const ExamineOptions& options);     // doctor_rdma.cc

// What the last one found out, and what it makes of it.
struct RdmaFacts {
  std::vector<verbs::Port> ports{};
  Result<std::vector<std::string>> offered = std::vector<std::string>{};  // by libibverbs
  std::uint64_t locked_limit = 0;                                         // RLIMIT_MEMLOCK
};
std::vector<Finding> rdma_findings(const RdmaFacts& facts);
// asked: NCCL_NET. version: of the library, or why it cannot be used.
std::vector<Finding> ucx_findings(std::string_view asked, const Result<std::string>& version);

}  // namespace rondo::cli
