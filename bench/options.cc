// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "bench/command_line.h"
#include "bench/gpu_lane.h"
#include "bench/plot.h"

namespace rondo::bench {
namespace {

// Raw values of the command line, before apply() checks them.
struct Texts {
  std::string collective;
  std::string min_bytes, max_bytes, step_bytes, rotate;
  std::string type = "float", op = "sum", root = "0", check = "1", values = "exact";
  std::string fail_if_slower = "5%", alloc = "malloc";
  int device_implementation = 0, device_ctas = 16, parallel_init = 0;
  int unalign = 0, own_stream = 1, cpu_time = 0, timestamps = 0, memory = 0, per_iteration = 0;
  bool threads = false, processes = false, no_progress = false, extended = false;
};

void add_nccl_tests_flags(CommandLine& line, Options& o, Texts& t) {
  line.option("-t,--nthreads", o.threads, "ranks as threads: number per process");
  line.option("-g,--ngpus", o.gpus, "devices that each thread drives by group calls");
  line.option("-b,--minbytes", t.min_bytes, "first size (suffix K, M, G: powers of 1024); 32M");
  line.option("-e,--maxbytes", t.max_bytes, "last size; 32M, or the first if that is larger");
  line.option("-i,--stepbytes", t.step_bytes, "step between sizes, where -f is 1; 1M");
  line.option("-f,--stepfactor", o.step_factor, "factor between sizes; 1: steps of -i");
  line.option("-n,--iters", o.iterations, "timed iterations").show_default();
  line.option("-w,--warmup_iters", o.warmup, "warmup iterations per size").show_default();
  line.option("-m,--agg_iters", o.aggregate, "calls per iteration, in one group");
  line.option("-N,--run_cycles", o.cycles, "number of sweeps; 0: without limit");
  line.option("-p,--parallel_init", t.parallel_init, "accepted: threads always join in parallel");
  line.option("-c,--check", t.check, "checked iterations besides the timed ones, or 'every'")
      .show_default();
  line.option("-o,--op", t.op, "sum prod min max avg mulsum band bor bxor, or all");
  line.option("-d,--datatype", t.type,
              "int8 uint8 int16 uint16 int32 uint32 int64 uint64 half float double bfloat16 "
              "f8e4m3 f8e5m2, or all");
  line.option("-r,--root", t.root, "root; -1 or all: each in turn");
  line.option("-z,--blocking", o.blocking,
              "1: barrier after each iteration, in its time; 2: wait only; 3: barrier not in it");
  line.option("-y,--stream_null", t.own_stream,
              "1: calls run on the caller's thread; 0: on a stream, waited for at the end");
  line.option("-T,--timeout", o.timeout, "seconds per size until the ranks are aborted");
  line.option("-G,--cudagraph", o.graphs,
              "capture the iterations and launch the graph this number of times; GPUs only");
  line.option("-C,--report_cputime", t.cpu_time, "1: CPU time of the calling thread");
  line.option("-S,--report_timestamps", t.timestamps, "1: append the time of day");
  line.option("-J,--output_file", o.nccl_json,
              "write nccl-tests' JSON; if the file exists, to FILE.0, FILE.1, ...");
  line.option("-a,--average", o.average,
              "time to report: 0: of rank 0, 1: average, 2: fastest, 3: slowest");
  line.option("-R,--local_register", o.local_register,
              "1: ncclCommRegister, 2: ncclMemAlloc and a symmetric window");
  line.option("-x,--cta_policy", o.cta_policy, "0 default, 1 efficiency, 2 zero");
  line.option("-D,--device_implementation", t.device_implementation,
              "kernels of the device API: only 0 on host memory");
  line.option("-V,--device_cta_count", t.device_ctas, "accepted, for -D");
  line.option("-M,--memory", t.memory, "1: report memory");
  line.option("-u,--unalign", t.unalign, "offset of the buffers, in elements");
  line.option("-I,--per_iter_timing", t.per_iteration, "1: columns of iteration times");
  line.option("-K,--per_iter_skip", o.skip_iterations,
              "number of first iterations to leave out of -I");
}

// Returns the option --ranks.
CommandOption add_own_flags(CommandLine& line, Options& o, Texts& t) {
  const CommandOption ranks =
      line.option("--ranks", o.ranks, "number of ranks; started by the program itself");
  const CommandOption threads =
      line.flag("--threads", t.threads, "ranks are threads of one process");
  line.flag("--processes", t.processes, "ranks are processes (default)").excludes(threads);
  line.option("--ranks-per-gpu", o.ranks_per_gpu,
              "ranks that share each device; default: those of this host, spread over its "
              "devices");
  line.option("--json", o.json, "write results as JSON, with plan, ranks and percentiles");
  line.option("--csv", o.csv, "write results as CSV, one row a measurement");
  line.option("--plot", o.plot,
              "draw latency and bus bandwidth over size: FILE.svg, FILE.png, or - in the terminal; "
              "beside them --baseline's (needs gnuplot)");
  const CommandOption baseline =
      line.option("--baseline", o.baseline, "compare medians with this file (from --json)");
  line.option("--fail-if-slower", t.fail_if_slower, "exit with 7 where slower by more; 5%")
      .needs(baseline);
  line.option("--values", t.values, "test values: exact, random, special, all").show_default();
  line.option("--min-time", o.min_time, "seconds: more iterations where -n is too short");
  line.option("--rotate", t.rotate, "walk through this much memory (cold caches); 0");
  line.option("--alloc", t.alloc, "malloc or nccl (ncclMemAlloc)").show_default();
  line.flag("--bind", o.bind, "keep each rank on one CPU, the same in every run");
  line.option("--spread", o.spread, "v-collectives: 0 equal parts ... 1 growing with distance");
  line.flag("--bits", o.bits,
            "in place of times: which things change the bits of a sum, as a table (--json too)");
  line.flag("--plain", o.plain, "nccl-tests' columns only");
  line.flag("--extended", t.extended,
            "with percentiles, slowest rank and plan: over 150 columns, the default on a "
            "terminal that has them");
  line.flag("--no-progress", t.no_progress, "no progress line on a terminal");
  return ranks;
}

constexpr int kWideTable = 180;

// 0: standard output is no terminal.
int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// The error of a command line that can be parsed but is not valid.
struct Refusal {
  std::string text;
};

[[noreturn]] void refuse(const std::string& text) { throw Refusal{text}; }

// Reports files that cannot be read or written before the sweep, not after it.
void check_files(const Options& o) {
  if (!o.plot.empty()) {
    if (!format_of(o.plot))
      refuse(fmt::format("--plot '{}' is no FILE.svg, no FILE.png and not -", o.plot));
    if (const Status present = check_gnuplot(); !present)
      refuse(fmt::format("--plot {}: {}", o.plot, present.error().text));
  }
  const auto refuse_file = [](const char* flag, const std::string& path) {
    refuse(fmt::format("{} '{}': {}", flag, path, std::strerror(errno)));
  };
  if (!o.baseline.empty() && access(o.baseline.c_str(), R_OK) != 0)
    refuse_file("--baseline", o.baseline);
  for (const auto& [flag, path] : {std::pair<const char*, const std::string&>{"--json", o.json},
                                   {"-J", o.nccl_json},
                                   {"--csv", o.csv},
                                   {"--plot", o.plot}}) {
    if (path.empty() || path == "-") continue;
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (access(folder.c_str(), W_OK | X_OK) != 0) refuse_file(flag, path);
  }
}

void apply_sizes(Options& o, const Texts& t) {
  const auto size = [&](const char* flag, const std::string& text, std::size_t& value) {
    if (text.empty()) return;
    const auto parsed = parse_size(text);
    if (!parsed) refuse(fmt::format("{} '{}' is not a size such as 4096, 64K or 1.5M", flag, text));
    value = *parsed;
  };
  size("-b", t.min_bytes, o.min_bytes);
  o.max_bytes = std::max(o.max_bytes, o.min_bytes);
  if (!o.plain && t.min_bytes.empty() && t.max_bytes.empty() && t.step_bytes.empty() &&
      o.step_factor == 1) {
    // No sizes given: an overview instead of nccl-tests' one size.
    o.min_bytes = 256, o.max_bytes = 16 << 20, o.step_factor = 4;
  }
  size("-e", t.max_bytes, o.max_bytes);
  size("-i", t.step_bytes, o.step_bytes);
  size("--rotate", t.rotate, o.rotate);
  if (!t.min_bytes.empty() && !t.max_bytes.empty() && o.max_bytes < o.min_bytes)
    refuse(fmt::format("-e {} is less than -b {}", t.max_bytes, t.min_bytes));
  o.min_bytes = std::min(o.min_bytes, o.max_bytes);
  if (o.step_factor < 1) refuse("-f must be 1 or more");
  if (o.step_factor == 1 && o.step_bytes == 0 && o.min_bytes < o.max_bytes)
    refuse("-i 0 would never get from -b to -e");
  constexpr std::size_t kMaxSizes = 1'000'000;
  if (o.step_factor == 1 && o.min_bytes < o.max_bytes &&
      (o.max_bytes - o.min_bytes) / o.step_bytes >= kMaxSizes)
    refuse(fmt::format("-b {} to -e {} by -i {} are more than {} sizes: take a larger -i, or -f",
                       o.min_bytes, o.max_bytes, o.step_bytes, kMaxSizes));
}

void check_ranges(const Options& o, const Texts& t) {
  const auto at_least = [&](const char* flag, int value, int minimum) {
    if (value < minimum) refuse(fmt::format("{} {} is less than {}", flag, value, minimum));
  };
  at_least("-n", o.iterations, 1);
  at_least("-w", o.warmup, 0);
  at_least("-m", o.aggregate, 1);
  at_least("-N", o.cycles, 0);
  at_least("-t", o.threads, 1);
  at_least("-g", o.gpus, 1);
  at_least("--ranks", o.ranks, 0);
  at_least("-G", o.graphs, 0);
  at_least("--ranks-per-gpu", o.ranks_per_gpu, 0);
  at_least("-K", o.skip_iterations, 0);
  at_least("-u", t.unalign, 0);
  const auto one_of = [&](const char* flag, int value, int last) {
    if (value < 0 || value > last) refuse(fmt::format("{} {} is not in 0..{}", flag, value, last));
  };
  one_of("-z", o.blocking, 3), one_of("-a", o.average, 3), one_of("-R", o.local_register, 2);
  one_of("-y", t.own_stream, 1), one_of("-C", t.cpu_time, 1), one_of("-S", t.timestamps, 1);
  one_of("-M", t.memory, 2), one_of("-I", t.per_iteration, 1);
  if (o.cta_policy != NCCL_CONFIG_UNDEF_INT) one_of("-x", o.cta_policy, 2);
  if (!(o.spread >= 0 && o.spread <= 1)) refuse("--spread is a number from 0 to 1");
  if (!(o.timeout >= 0) || !(o.min_time >= 0)) refuse("-T and --min-time are seconds, 0 or more");
}

void apply_switches(Options& o, const Texts& t) {
  o.gpus *= std::max(o.ranks_per_gpu, 1);
  o.unalign = static_cast<std::size_t>(t.unalign);
  o.own_stream = t.own_stream == 0, o.cpu_time = t.cpu_time == 1;
  o.timestamps = t.timestamps == 1, o.memory = t.memory != 0;
  o.per_iteration = t.per_iteration == 1, o.progress = !t.no_progress;
  if (t.threads) o.launch = Launch::kThreads;
  if (t.extended) o.plain = false;
  o.extended = t.extended || (!o.plain && terminal_columns() >= kWideTable);
  if (t.alloc != "malloc" && t.alloc != "nccl")
    refuse(fmt::format("--alloc '{}' is not malloc or nccl", t.alloc));
  o.library_memory = t.alloc == "nccl" || o.local_register == 2;
}

void apply_types_and_operations(Options& o, const Texts& t) {
  if (t.type == "all") {
    o.types.clear();
    for (const TypeInfo& type : all_types()) o.types.push_back(type.type);
  } else if (const auto type = type_by_name(t.type)) {
    o.types = {*type};
  } else {
    refuse(there_is_no("type", t.type, names_of_types()));
  }
  if (t.op == "all") {
    o.ops.assign(all_ops().begin(), all_ops().end());
  } else if (const auto op = op_by_name(t.op)) {
    o.ops = {*op};
    if (!supported(*op, o.types[0]) && o.types.size() == 1)
      refuse(fmt::format("-o {} is for integers, not for {}", t.op, t.type));
  } else {
    refuse(there_is_no("operation", t.op, names_of_ops()));
  }
}

void apply_root_and_checks(Options& o, const Texts& t) {
  char* end = nullptr;
  o.root = t.root == "all" ? kAllRoots : static_cast<int>(std::strtol(t.root.c_str(), &end, 10));
  if (end != nullptr && (*end != '\0' || o.root < kAllRoots))
    refuse(fmt::format("-r '{}' is not a rank, -1 or all", t.root));
  end = nullptr;
  o.check = t.check == "every"   ? kCheckEvery
            : t.check == "first" ? 1
                                 : static_cast<int>(std::strtol(t.check.c_str(), &end, 10));
  if (end != nullptr && (*end != '\0' || o.check < 0 || t.check.empty()))
    refuse(fmt::format("-c '{}' is not a number of iterations, first or every", t.check));
  if (o.check == kCheckEvery && o.aggregate > 1)
    refuse("-c every checks each call by itself: leave -m at 1");
  const std::map<std::string, std::vector<Values>> kinds{
      {"exact", {Values::kExact}},
      {"random", {Values::kRandom}},
      {"special", {Values::kSpecial}},
      {"all", {Values::kExact, Values::kRandom, Values::kSpecial}}};
  if (!kinds.contains(t.values))
    refuse(fmt::format("--values '{}' is not exact, random, special or all", t.values));
  o.values = kinds.at(t.values);
  const auto fraction = parse_fraction(t.fail_if_slower);
  if (!fraction) refuse(fmt::format("--fail-if-slower '{}' is not like 5%", t.fail_if_slower));
  o.fail_if_slower = *fraction;
}

void check_graphs(const Options& o) {
  if (o.graphs == 0) return;
  if (o.blocking != 0 || o.check == kCheckEvery || o.cpu_time || o.per_iteration)
    refuse("-G launches all iterations at once: leave out -z, -I, -C and -c every");
  if (o.threads > 1)
    refuse("-G: ranks of one process go into one graph, so one thread drives them: -g, not -t");
}

// bits.h.
void check_bits(const Options& o) {
  if (!o.bits) return;
  if (o.kind != Kind::kAllReduce) refuse("--bits is of all_reduce, which asks reduce_scatter too");
  if (o.types.size() > 1 || !info(o.types[0]).is_float)
    refuse("--bits: -d names a float: sums of integers have the same bits in any order");
  if (o.ranks != 0 && o.ranks != 2 && o.ranks != 4 && o.ranks != 8)
    refuse(fmt::format("--bits: --ranks is 2, 4 or 8, not {}: they share 8 summands", o.ranks));
}

// Throws a Refusal.
void apply(Options& o, const Texts& t) {
  apply_sizes(o, t);
  check_ranges(o, t);
  apply_switches(o, t);
  apply_types_and_operations(o, t);
  apply_root_and_checks(o, t);
  check_graphs(o);
  check_bits(o);
}

}  // namespace

std::optional<double> parse_fraction(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(number >= 0)) return std::nullopt;
  const std::string_view rest(end);
  if (rest == "%") return number / 100;
  return rest.empty() ? std::optional(number) : std::nullopt;
}

Parsed parse(int argc, char** argv, std::optional<Kind> named, bool plain) {
  Options options;
  Texts texts;
  CommandLine line(
      "Measures and checks a collective: nccl-tests' flags, table and exit codes (7: wrong "
      "data).\nStarts its ranks itself, or takes part where rondo run, torchrun, mpirun "
      "or srun started it.",
      argc, argv, plain ? kBadPerfLine : kBadCommandLine);
  options.command = argv[0];
  options.plain = plain;
  if (plain) options.warmup = 1;  // nccl-tests' default
  if (!named)
    line.option("collective", texts.collective, fmt::format("{}", fmt::join(names_of_kinds(), " ")))
        .required();
  add_nccl_tests_flags(line, options, texts);
  const CommandOption ranks = add_own_flags(line, options, texts);
  if (const auto ended = line.parse()) return {std::nullopt, *ended};
  try {
    if (!named) named = kind_by_name(texts.collective);
    if (!named) throw Refusal{there_is_no("collective", texts.collective, names_of_kinds())};
    options.kind = *named;
    apply(options, texts);
    if (ranks.given() && options.ranks == 0) throw Refusal{"--ranks 0 is less than 1"};
    check_files(options);
  } catch (const Refusal& refusal) {
    return {std::nullopt, line.refuse(refusal.text)};
  }
  options.program = fmt::format("{}_perf", info(options.kind).name);
  options.devices = gpu_devices();
  if (options.bits && options.devices > 0)
    return {std::nullopt, line.refuse("--bits is of host memory: set RONDO_DEVICE=host")};
  const bool needs_gpu = options.graphs > 0 || options.ranks_per_gpu > 0;
  if (needs_gpu && options.devices == 0) {
    const std::string why =
        gpu_api() == nullptr ? gpu_absence() : "RONDO_DEVICE=host, or no device is visible";
    return {std::nullopt,
            line.refuse(fmt::format("-G and --ranks-per-gpu need a GPU; here ranks live in host "
                                    "memory ({})",
                                    why),
                        kNotImplemented)};
  }
  if (texts.device_implementation != 0)
    return {std::nullopt, line.refuse("-D: there is no device API", kNotImplemented)};
  return {options, kOk};
}

std::vector<std::size_t> sweep_sizes(const Options& options) {
  if (!info(options.kind).sized) return {0};
  std::vector<std::size_t> sizes;
  for (std::size_t size = options.min_bytes; size <= options.max_bytes;) {
    sizes.push_back(size);
    const std::size_t next =
        options.step_factor > 1
            ? std::max<std::size_t>(size, 1) * static_cast<std::size_t>(options.step_factor)
            : size + options.step_bytes;
    if (next <= size) break;
    // After size 0, a factor starts at one element of the largest type (8 bytes).
    size = size == 0 && options.step_factor > 1 ? 8 : next;
  }
  return sizes;
}

}  // namespace rondo::bench
