// The command line of `rondo bench`: nccl-tests' flags by their short and long names, and ours.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/element_types.h"
#include "bench/kinds.h"
#include "bench/reference.h"

namespace rondo::bench {

enum class Launch { kProcesses, kThreads };
inline constexpr int kAllRoots = -1;
inline constexpr int kCheckEvery = -1;  // every timed iteration

struct Options {
  Kind kind = Kind::kAllReduce;
  std::string program;  // "all_reduce_perf"
  bool plain = false;   // nccl-tests' columns and nothing else

  // Ranks.
  int ranks = 0;  // 0: processes of the launcher * threads * gpus
  Launch launch = Launch::kProcesses;
  int threads = 1;  // -t
  int gpus = 1;  // -g: ranks that a thread drives by groups (devices of a thread x ranks of each)
  int ranks_per_gpu = 0;  // 0: as the ranks of the host spread over its devices
  int devices = 0;        // CUDA devices that ranks live on here; 0: host memory

  // Sizes.
  std::size_t min_bytes = 32 << 20;
  std::size_t max_bytes = 32 << 20;
  std::size_t step_bytes = 1 << 20;
  int step_factor = 1;

  // How often.
  int iterations = 20;
  int warmup = 5;
  int aggregate = 1;
  int cycles = 1;
  double min_time = 0;  // seconds a size

  // What.
  std::vector<ncclDataType_t> types{ncclFloat32};
  std::vector<Op> ops{Op::kSum};
  int root = 0;
  double spread = 1;

  // How.
  int blocking = 0;             // -z
  bool own_stream = false;      // -y 0
  int local_register = 0;       // -R
  bool library_memory = false;  // ncclMemAlloc'd buffers
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
  int graphs = 0;           // -G: launches of a graph that holds all iterations; 0: plain calls
  bool bind = false;        // each rank to one CPU, once it has joined
  std::size_t unalign = 0;  // elements
  std::size_t rotate = 0;   // bytes of memory that iterations walk through; 0: hot buffers
  double timeout = 0;       // seconds a test; 0: the library's own

  // Checks.
  int check = 1;  // checked extra iterations; kCheckEvery
  std::vector<Values> values{Values::kExact};

  // Reports.
  int average = 1;  // 0 rank 0, 1 average, 2 minimum, 3 maximum
  bool cpu_time = false;
  bool timestamps = false;
  bool memory = false;
  bool per_iteration = false;
  int skip_iterations = 0;
  std::string json, csv, baseline;
  double fail_if_slower = 0.05;
  bool progress = true;
};

struct Parsed {
  std::optional<Options> options;  // none: leave with exit_code
  int exit_code = 0;
};

// argv[0] names the program; where `named` is empty the first argument is the collective. Prints
// what is wrong with the command line, or the help that was asked for.
Parsed parse(int argc, char** argv, std::optional<Kind> named, bool plain);

// Sizes from -b to -e by -f or -i; ends for every accepted option.
std::vector<std::size_t> sweep_sizes(const Options& options);

// "5%" -> 0.05, "0.05" -> 0.05
std::optional<double> parse_fraction(const std::string& text);

}  // namespace rondo::bench
