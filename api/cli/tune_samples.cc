#include "api/cli/tune_samples.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "api/cli/asked_call.h"
#include "api/cli/asked_facts.h"
#include "api/cli/job.h"
#include "collectives/planner/host_work.h"
#include "topology/cpu_budget.h"
#include "topology/small_file.h"

namespace rondo::cli {
namespace {

// Ways that one kind of layout has, each alone. Calls with a root over connections are left out: a
// root that is ahead of its peers pays for no step.
struct TuneRow {
  const char* collective;
  const char* algorithm;
  bool one_host, several_hosts;
};
constexpr TuneRow kTuneRows[] = {
    {"all_reduce", "oneshot", true, false},      {"all_reduce", "twoshot", true, false},
    {"all_reduce", "recursive", true, true},     {"all_reduce", "tree", true, true},
    {"all_reduce", "ring", true, true},          {"all_reduce", "hierarchical", false, true},
    {"all_gather", "direct", true, false},       {"all_gather", "ring", true, true},
    {"all_gather", "hierarchical", false, true}, {"reduce_scatter", "direct", true, false},
    {"reduce_scatter", "ring", true, true},      {"broadcast", "direct", true, false},
    {"reduce", "oneshot", true, false},          {"reduce", "direct", true, false},
};

struct TuneLayout {
  int ranks, hosts;
};
// A rank a core, and more ranks than cores; pretended hosts of one rank and of two.
std::vector<TuneLayout> layouts() {
  const int cores = std::clamp(topology::usable_cores(), 2, 8);
  std::vector<TuneLayout> all{{2, 1}, {2 * cores, 1}, {2, 2}, {4, 2}};
  if (cores > 2) all.push_back({cores, 1});
  return all;
}

// Variables of this process that the ranks inherit, for the time of a run.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Of a line "bytes count us" of a rank (tune_rank.h).
std::optional<MeasuredCall> call_of_line(std::string_view line, const TuneRow& row,
                                         const TuneLayout& layout) {
  MeasuredCall call{row.collective, row.algorithm, layout.ranks, layout.hosts};
  const auto read = [&](auto* number) {
    const std::string_view text = topology::take_until(line, ' ');
    return std::from_chars(text.data(), text.data() + text.size(), *number).ec == std::errc();
  };
  if (!read(&call.bytes) || !read(&call.count) || !read(&call.us) || call.us <= 0)
    return std::nullopt;
  return call;
}

Done measure_row(const TuneRow& row, const TuneLayout& layout, double seconds,
                 const std::string& file, std::vector<MeasuredCall>* calls) {
  std::string function = row.collective;  // as NCCL_ALGO names it
  function.erase(std::remove(function.begin(), function.end(), '_'), function.end());
  const Variable algorithm("NCCL_ALGO", (function + ":" + row.algorithm).c_str()),
      protocol("NCCL_PROTO", ""), network("NCCL_NET", "Socket"), tuned("RONDO_TUNE_FILE", ""),
      debug("NCCL_DEBUG", "NONE");
  const std::string host = layout.hosts == 1 ? ""
                                             : fmt::format("NCCL_HOSTID=tune$((RANK * {} / {})) ",
                                                           layout.hosts, layout.ranks);
  JobOptions job;
  job.ranks = layout.ranks;
  job.passthrough = true;
  job.argv = {"sh", "-c",
              fmt::format("{}exec '{}' tune --rank {} --min-time {} '{}'", host, own_program(),
                          row.collective, seconds, file)};
  if (const int status = run_job(job); status != 0)
    return fail(Status::kSystemError,
                "measuring {} by {} on {} ranks of {} hosts ended with status {}", row.collective,
                row.algorithm, layout.ranks, layout.hosts, status);
  const auto text = topology::read_small_file(file);
  if (!text) return fail(Status::kSystemError, "'{}': nothing was written there", file);
  topology::for_each_line(*text, [&](std::string_view line) {
    if (auto call = call_of_line(line, row, layout)) calls->push_back(std::move(*call));
    return true;
  });
  return done();
}

}  // namespace

Result<std::vector<MeasuredCall>> measure_calls(double seconds, std::string_view only) {
  char folder[] = "/tmp/rondo-tune-XXXXXX";
  if (mkdtemp(folder) == nullptr)
    return fail(Status::kSystemError, "no folder can be made in /tmp: {}", strerror(errno));
  const std::string file = std::string(folder) + "/calls";
  std::vector<MeasuredCall> calls;
  Done measured = done();
  for (const TuneLayout& layout : layouts())
    for (const TuneRow& row : kTuneRows) {
      const bool gains =
          layout.ranks > layout.hosts || std::string_view(row.algorithm) != "hierarchical";
      const bool wanted = gains && (layout.hosts == 1 ? row.one_host : row.several_hosts) &&
                          (only.empty() || only == row.collective);
      if (wanted && measured.ok()) measured = measure_row(row, layout, seconds, file, &calls);
    }
  unlink(file.c_str());
  rmdir(folder);
  if (!measured.ok()) return measured.error();
  if (calls.empty())
    return fail(Status::kInvalidArgument,
                "--only '{}' is measured by nothing: all_reduce, all_gather, reduce_scatter, "
                "broadcast or reduce",
                only);
  return calls;
}

Result<CostSample> sample_of(const MeasuredCall& call) {
  AskedCall asked;
  asked.collective = call.collective;
  asked.size = std::to_string(call.bytes);
  asked.ranks = call.ranks;
  RONDO_TRY(const CallRecord record, record_of(asked));
  AskedRanks where;
  where.ranks = call.ranks;
  where.hosts = call.hosts;
  where.one_machine = true;
  RONDO_TRY(PlanFacts facts, facts_of_ranks(where));
  RONDO_TRY(facts.algorithms, parse_algorithms(call.algorithm, "rondo tune"));
  RONDO_TRY(const Plan plan, make_plan(facts, record));
  return CostSample{host_work(facts, record, plan), call.us * 1000};
}

}  // namespace rondo::cli
