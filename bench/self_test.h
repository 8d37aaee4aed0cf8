// SPDX-License-Identifier: Apache-2.0
// run_self_test(): this process's part of `rondo doctor --self-test`: one rank that checks every
// collective, type, operation and algorithm against the reference (reference.h), and measures every
// link beside the rate that topology or cost model promise.
//
// A link is a pair of ranks. Pairs exchange messages one after another, so that no two share
// anything. Of several hosts, only ranks with equal local numbers are paired across hosts.
// Guarantees: all ranks take the same steps; every wait ends by the library's deadlines. After a
// call fails, the test ends with what it has found. Cost: some thousand calls, seconds; a
// communicator for each algorithm and each pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/backend.h"
#include "bench/link_test.h"
#include "bench/report.h"

namespace rondo::bench {

struct SelfTestOptions {
  double seconds = 0;                 // repeat until then; 0: once
  std::vector<ncclDataType_t> types;  // empty: all
  std::vector<Kind> kinds;            // empty: all
  std::vector<std::size_t> sizes{40, 10'000};
  std::size_t large_bytes = 1 << 20;  // the same, of sums of float32
  std::size_t link_bytes = 4 << 20;   // of a message
};

struct CheckedWay {                   // a collective by one algorithm
  std::string collective, algorithm;  // "planned": what the planner chooses
  std::uint64_t calls = 0, wrong = 0;
  // One of its calls, of the largest size; 0: unknown.
  double time_us = 0, predicted_us = 0;
  std::size_t bytes = 0;
};

struct WrongData {
  std::string collective, algorithm, type, op;
  std::size_t bytes = 0;
  bool in_place = false;
  int rank = 0;             // whose result is wrong
  std::uint64_t wrong = 0;  // elements
  std::string example;
  int round = 1;
};

struct SelfTestResult {
  std::vector<Rank> ranks;
  std::vector<CheckedWay> ways;
  std::vector<WrongData> wrong;  // the first hundred
  std::vector<LinkRate> links;
  std::vector<std::string> errors;    // of calls that failed
  std::vector<std::string> of_ranks;  // what each caller gave as `mine`
  double seconds = 0;
  int rounds = 0;
};

struct SelfTestRun {
  const SelfTestOptions& options;
  const rondo_launch_t& launch;
  MakeBackend make_backend;
  std::FILE* progress = nullptr;  // a terminal; nullptr: none
  std::string mine;               // sent to all ranks
};

// On every rank the same result, except `errors`, which are this rank's.
Result<SelfTestResult> run_self_test(const SelfTestRun& run);

}  // namespace rondo::bench
