// SPDX-License-Identifier: Apache-2.0
// Options and parse(): the command line of `rondo bench`: nccl-tests' flags by their short and long
// names, and Rondo's own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/element_types.h"
#include "bench/kinds.h"
#include "bench/reference.h"

namespace rondo::bench {

// Exit codes of `rondo bench`: nccl-tests' numbers, so that scripts work unchanged, but for a wrong
// command line.
enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kLibraryError = 3,    // a call of the library failed
  kTimedOut = 4,        // -T
  kNotImplemented = 5,  // not available here (CUDA graphs on host memory)
  kInvalidUse = 6,      // valid but impossible: too little memory, wrong number of ranks
  kWrongResult = 7,     // wrong data, below NCCL_TESTS_MIN_BW, slower than the baseline
  kBadCommandLine = 2,  // not a valid command line: as in all commands of rondo
  kBadPerfLine = 255,   // the same under a program name of nccl-tests'
};

enum class Launch { kProcesses, kThreads };
inline constexpr int kAllRoots = -1;
inline constexpr int kCheckEvery = -1;  // every timed iteration

struct Options {
  Kind kind = Kind::kAllReduce;
  std::string program;                  // "all_reduce_perf"
  std::string command = "rondo bench";  // begins errors
  // The table: as nccl-tests prints it (118 columns), or narrower, or with what else is known.
  bool plain = false;     // nccl-tests' columns only
  bool extended = false;  // and percentiles, slowest rank and plan

  // Ranks.
  int ranks = 0;  // 0: processes of the launcher * threads * gpus
  Launch launch = Launch::kProcesses;
  int threads = 1;        // -t
  int gpus = 1;           // -g: ranks that a thread drives by groups (its devices x ranks of each)
  int ranks_per_gpu = 0;  // 0: ranks of the host spread evenly over its devices
  int devices = 0;        // CUDA devices for ranks on this host; 0: host memory

  // Sizes.
  std::size_t min_bytes = 32 << 20;
  std::size_t max_bytes = 32 << 20;
  std::size_t step_bytes = 1 << 20;
  int step_factor = 1;

  // Repetitions.
  int iterations = 20;
  int warmup = 5;
  int aggregate = 1;
  int cycles = 1;
  double min_time = 0;  // seconds per size

  // Calls.
  std::vector<ncclDataType_t> types{ncclFloat32};
  std::vector<Op> ops{Op::kSum};
  int root = 0;
  double spread = 1;

  // Modes.
  int blocking = 0;             // -z
  bool own_stream = false;      // -y 0
  int local_register = 0;       // -R
  bool library_memory = false;  // ncclMemAlloc'd buffers
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
  int graphs = 0;           // -G: launches of a graph of all iterations; 0: plain calls
  bool bind = false;        // bind each rank to one CPU after it joined
  std::size_t unalign = 0;  // elements
  std::size_t rotate = 0;   // bytes of memory that iterations walk through; 0: hot buffers
  double timeout = 0;       // seconds per test; 0: only the library's own

  // Checks.
  int check = 1;  // number of extra checked iterations, or kCheckEvery
  std::vector<Values> values{Values::kExact};

  // Reports.
  int average = 1;  // 0 rank 0, 1 average, 2 minimum, 3 maximum
  bool cpu_time = false;
  bool timestamps = false;
  bool memory = false;
  bool per_iteration = false;
  int skip_iterations = 0;
  std::string json, csv, baseline;
  std::string nccl_json;  // -J: nccl-tests' JSON
  std::string plot;       // a picture's file, or "-": the terminal
  double fail_if_slower = 0.05;
  bool progress = true;
  bool bits = false;  // in place of times (bench/bits.h)
};

struct Parsed {
  std::optional<Options> options;  // none: exit with exit_code
  int exit_code = 0;
};

// argv[0] names the program; if `named` is empty, the first argument is the collective. Prints
// errors of the command line, or the help.
Parsed parse(int argc, char** argv, std::optional<Kind> named, bool plain);

// Sizes from -b to -e by -f or -i. Terminates for all accepted options.
std::vector<std::size_t> sweep_sizes(const Options& options);

// "5%" -> 0.05, "0.05" -> 0.05
std::optional<double> parse_fraction(const std::string& text);

}  // namespace rondo::bench
