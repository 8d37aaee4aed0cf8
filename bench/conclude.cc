#include "bench/conclude.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/env.h"
#include "base/output_file.h"
#include "bench/exit_codes.h"

namespace rondo::bench {
namespace {

void print_memory(std::FILE* out, const Memory& memory) {
  const auto mib = [](std::size_t bytes) {
    return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
  };
  fmt::print(out,
             "# Memory usage (maximum over the ranks) : Initialization {} | User-Allocated {} | "
             "Collective {} | Total {}\n",
             mib(memory.initial), mib(memory.buffers), mib(memory.collective),
             mib(memory.initial + memory.buffers + memory.collective));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(out, "# Resident set of process 0, at most : {}\n",
             mib(static_cast<std::size_t>(usage.ru_maxrss) << 10));
}

int against_baseline(std::FILE* out, const Options& options, const Context& context,
                     const Run& run) {
  const auto comparison = compare(options.baseline, context, options, run);
  if (!comparison) {
    fmt::print(stderr, "{}: {}\n", options.program, comparison.error().text);
    return kInvalidUse;
  }
  const auto& slower = comparison.value().slower;
  for (const std::string& line : slower) fmt::print(out, "# slower: {}\n", line);
  fmt::print(out, "# Baseline : {} of {} measurements slower by more than {:g}% {}\n",
             slower.size(), comparison.value().compared, 100 * options.fail_if_slower,
             slower.empty() ? "OK" : "FAILED");
  return slower.empty() ? kOk : kWrongResult;
}

int keep(const Options& options, const std::string& path, const std::string& text) {
  if (path.empty()) return kOk;
  const Status written = write_output(path, text);
  if (written) return kOk;
  fmt::print(stderr, "{}: {}\n", options.program, written.error().text);
  return kInvalidUse;
}

}  // namespace

int conclude(std::FILE* out, const Options& options, const Context& context, const Run& run,
             int code) {
  const bool ran = code == kOk;
  const auto also = [&](int other) {
    if (code == kOk) code = other;
  };
  const bool right = run.wrong == 0;
  also(right ? kOk : kWrongResult);
  fmt::print(out, "# Out of bounds values : {} {}\n", run.wrong,
             !right ? "FAILED"
             : ran  ? "OK"
                    : "INCOMPLETE");
  const double floor = env::get_double("NCCL_TESTS_MIN_BW");
  const double bandwidth = run.average_bus_gbs();
  const bool fast = floor <= 0 || bandwidth >= 0.9 * floor;  // nccl-tests' tolerance
  also(fast ? kOk : kWrongResult);
  fmt::print(out, "# Avg bus bandwidth    : {:g} {}\n", bandwidth,
             floor <= 0 ? ""
             : fast     ? "OK"
                        : "FAILED");
  fmt::print(out, "#\n# Collective test concluded: {}\n", options.program);
  if (options.memory) print_memory(out, run.memory);
  if (!options.baseline.empty() && ran) also(against_baseline(out, options, context, run));
  for (const std::string& error : run.errors) fmt::print(out, "# error: {}\n", error);
  fmt::print(out, "#\n");
  std::fflush(out);
  if (!options.json.empty()) also(keep(options, options.json, json_of(context, options, run)));
  if (!options.csv.empty()) also(keep(options, options.csv, csv_of(context, options, run)));
  return code;
}

}  // namespace rondo::bench
