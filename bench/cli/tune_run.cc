// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/tune_run.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "api/launch_env.h"
#include "base/printable.h"
#include "base/text_file.h"
#include "bench/backend.h"
#include "bench/buffers.h"
#include "bench/kinds.h"
#include "bench/runner/job.h"
#include "bench/team.h"
#include "topology/small_file.h"

namespace rondo::cli {
namespace {

// Sets variables of this process, which the ranks inherit, for the duration of a run.
class InheritedVariables {
 public:
  InheritedVariables() = default;
  ~InheritedVariables() {
    for (auto one = before_.rbegin(); one != before_.rend(); ++one) {
      if (one->value) {
        setenv(one->name, one->value->c_str(), 1);
      } else {
        unsetenv(one->name);
      }
    }
  }
  InheritedVariables(const InheritedVariables&) = delete;
  InheritedVariables& operator=(const InheritedVariables&) = delete;

  void set(const char* name, const std::string& value) {
    const char* const before = getenv(name);
    before_.push_back(
        {name, before != nullptr ? std::optional<std::string>(before) : std::nullopt});
    setenv(name, value.c_str(), 1);
  }

 private:
  struct Before {
    const char* name;
    std::optional<std::string> value;
  };
  std::vector<Before> before_;
};

void set_for(const TuneRun& run, InheritedVariables* variables) {
  std::string function = run.collective;  // its name in NCCL_ALGO
  function.erase(std::remove(function.begin(), function.end(), '_'), function.end());
  variables->set("NCCL_ALGO", function + ":" + run.algorithm);
  variables->set("NCCL_PROTO", run.protocol);
  variables->set("RONDO_TUNE_FILE", "");
  variables->set("RONDO_CMA", std::to_string(run.cma));
  variables->set("NCCL_DEBUG", "NONE");
  if (run.devices == 0) variables->set("RONDO_DEVICE", "host");
  if (run.meeting.empty()) variables->set("NCCL_NET", "Socket");
  if (run.ctas == 0) return;
  variables->set("NCCL_MIN_CTAS", std::to_string(run.ctas));
  variables->set("NCCL_MAX_CTAS", std::to_string(run.ctas));
}

// A temporary folder for the file that the ranks write.
class Scratch {
 public:
  Scratch() : made_(mkdtemp(folder_) != nullptr) {}
  ~Scratch() {
    if (!made_) return;
    unlink(file().c_str());
    rmdir(folder_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool made() const { return made_; }
  std::string file() const { return std::string(folder_) + "/calls"; }

 private:
  char folder_[32] = "/tmp/rondo-tune-XXXXXX";
  bool made_;
};

// Parses a rank's line "bytes count us predicted".
std::optional<MeasuredCall> call_of_line(std::string_view line, const TuneRun& run) {
  MeasuredCall call{run};
  const auto read = [&](auto* number) {
    const std::string_view text = topology::take_until(line, ' ');
    return std::from_chars(text.data(), text.data() + text.size(), *number).ec == std::errc();
  };
  if (!read(&call.bytes) || !read(&call.count) || !read(&call.us) || !read(&call.prior_us) ||
      call.us <= 0)
    return std::nullopt;
  return call;
}

}  // namespace

std::string TuneRun::name() const {
  return fmt::format("{} by {}{}{} on {} of {}{}", collective, algorithm,
                     protocol.empty() ? "" : ":", protocol, counted(ranks, "rank"),
                     counted(hosts, "host"), devices == 0 ? "" : " on " + counted(devices, "GPU"));
}

Result<std::vector<MeasuredCall>> measure_run(const TuneRun& run, const TuneSizes& sizes) {
  const Scratch scratch;
  if (!scratch.made())
    return fail(StatusCode::kSystemError, "cannot create a folder in /tmp: {}", strerror(errno));
  InheritedVariables variables;
  set_for(run, &variables);
  std::string words = run.meeting;
  if (run.hosts > 1 && run.meeting.empty())
    words = fmt::format("NCCL_HOSTID=tune$((RANK * {} / {})) ", run.hosts, run.ranks);
  runner::JobOptions job;
  job.ranks = run.processes_here();
  job.passthrough = true;
  job.argv = {"sh", "-c",
              fmt::format("{}exec '{}' tune --rank {} --lanes {} --devices {} --max {} --min-time "
                          "{} '{}'",
                          words, runner::own_program(), run.collective, run.lanes, run.devices,
                          sizes.max_bytes, sizes.seconds, scratch.file())};
  if (const int status = runner::run_job(job); status != 0)
    return fail(StatusCode::kSystemError, "measuring {} ended with status {}", run.name(), status);
  const auto text = topology::read_small_file(scratch.file());
  if (!text)
    return fail(StatusCode::kSystemError, "the measured job wrote nothing to '{}'", scratch.file());
  std::vector<MeasuredCall> calls;
  topology::for_each_line(*text, [&](std::string_view line) {
    if (auto call = call_of_line(line, run)) calls.push_back(std::move(*call));
    return true;
  });
  return calls;
}

namespace {

constexpr int kBlocks = 9;
constexpr int kMaxCalls = 1 << 16;  // per block
constexpr std::uint64_t kSizeFactor = 8;
constexpr double kMeetSeconds = 60;

// A rank of this process; the thread drives all of them by groups.
struct TuneLane {
  std::unique_ptr<bench::Backend> backend;
  int rank = 0;
  bench::Layout layout{};
  bench::Area send{}, receive{};
};

class TuneProcess {
 public:
  TuneProcess(const TuneRankOptions& options, bench::Kind kind, const rondo_launch_t& me,
              bench::BenchProcesses& team)
      : options_(options), kind_(kind), me_(me), team_(team) {}

  Result<std::string> run() {
    RONDO_CHECK_OK(join());
    std::string lines;
    for (std::uint64_t bytes = 4; bytes <= options_.max_bytes; bytes *= kSizeFactor) {
      RONDO_TRY(const bool any, prepare(bytes));
      if (!any) continue;
      RONDO_TRY(const double us, measure());
      const bench::Layout& layout = lanes_[0].layout;
      lines += fmt::format("{} {} {:.4f} {:.6f}\n", layout.bytes, layout.count, us,
                           lanes_[0].backend->predicted_us(call_of(lanes_[0])));
    }
    for (TuneLane& lane : lanes_) lane.send.release(), lane.receive.release();
    return grouped([](TuneLane& lane) { return lane.backend->leave(); }).ok()
               ? Result<std::string>(std::move(lines))
               : fail(StatusCode::kSystemError, "{}", lanes_[0].backend->last_error());
  }

 private:
  int ranks() const { return me_.size * options_.lanes; }

  // Calls function() for all ranks of this thread, in a group if there are several.
  template <class Function>
  Status grouped(const Function& function) {
    const bool group = options_.lanes > 1;
    if (group) RONDO_CHECK_OK(status_of(lanes_[0], lanes_[0].backend->group_start()));
    for (TuneLane& lane : lanes_) RONDO_CHECK_OK(status_of(lane, function(lane)));
    return group ? status_of(lanes_[0], lanes_[0].backend->group_end()) : ok_status();
  }
  static Status status_of(TuneLane& lane, ncclResult_t result) {
    if (result == ncclSuccess) return ok_status();
    return fail(static_cast<StatusCode>(result), "rank {}: {}", lane.rank,
                lane.backend->last_error());
  }

  Status join() {
    const int local = me_.local_rank >= 0 ? me_.local_rank : me_.rank;
    for (int i = 0; i < options_.lanes; ++i) {
      TuneLane& lane = lanes_.emplace_back();
      lane.backend = bench::make_rondo_backend();
      lane.rank = me_.rank * options_.lanes + i;
    }
    std::string id(sizeof(ncclUniqueId), '\0');
    if (me_.rank == 0) {
      ncclUniqueId made{};
      RONDO_CHECK_OK(status_of(lanes_[0], lanes_[0].backend->make_id(&made)));
      std::memcpy(id.data(), &made, sizeof made);
    }
    RONDO_TRY(const std::vector<std::string> ids, team_.all_gather(id));
    bench::JoinOptions join{.ranks = ranks(), .rank = 0, .id = {}};
    std::memcpy(&join.id, ids[0].data(), std::min(ids[0].size(), sizeof join.id));
    return grouped([&](TuneLane& lane) {
      join.rank = lane.rank;
      if (options_.devices > 0)
        join.device = (local * options_.lanes + lane.rank % options_.lanes) % options_.devices;
      return lane.backend->join(join);
    });
  }

  // Allocates buffers. False: there is no call of that size.
  Result<bool> prepare(std::uint64_t bytes) {
    for (TuneLane& lane : lanes_) {
      lane.layout = bench::layout_of({kind_, ncclFloat32, lane.rank, ranks(), 0}, bytes);
      if (lane.layout.count == 0) return false;
      RONDO_CHECK_OK(
          lane.send.allocate(*lane.backend, lane.layout.send_count * sizeof(float), false));
      RONDO_CHECK_OK(
          lane.receive.allocate(*lane.backend, lane.layout.recv_count * sizeof(float), false));
    }
    return true;
  }

  // The root's broadcast is in place, so that it copies nothing.
  bench::Call call_of(TuneLane& lane) const {
    const bool root = kind_ == bench::Kind::kBroadcast && lane.rank == 0;
    return {kind_,
            &lane.layout,
            lane.send.place(),
            root ? lane.send.place() : lane.receive.place(),
            ncclFloat32,
            ncclSum,
            0};
  }

  // Microseconds per call: the lower quartile of the blocks, because other load only adds time.
  Result<double> measure() {
    int calls = 1;
    RONDO_TRY(double each, agreed(calls));
    while (each * calls < options_.seconds * 1e6 / kBlocks / 4 && calls < kMaxCalls) {
      calls *= 4;
      RONDO_TRY(each, agreed(calls));
    }
    std::vector<double> blocks(kBlocks);
    for (double& one : blocks) {
      RONDO_TRY(one, block(calls));
    }
    std::sort(blocks.begin(), blocks.end());
    return blocks[kBlocks / 4];
  }

  Result<double> block(int calls) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      RONDO_CHECK_OK(
          grouped([this](TuneLane& lane) { return lane.backend->issue(call_of(lane)); }));
      if (options_.devices == 0) continue;
      for (TuneLane& lane : lanes_) RONDO_CHECK_OK(status_of(lane, lane.backend->wait()));
    }
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
  }

  // Mean over all processes of the time of a block, so that all make the same decision.
  Result<double> agreed(int calls) {
    RONDO_TRY(const double mine, block(calls));
    RONDO_TRY(const std::vector<std::string> all,
              team_.all_gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine)));
    double sum = 0;
    for (const std::string& one : all) {
      double theirs = 0;
      std::memcpy(&theirs, one.data(), std::min(one.size(), sizeof theirs));
      sum += theirs;
    }
    return sum / static_cast<double>(all.size());
  }

  const TuneRankOptions& options_;
  const bench::Kind kind_;
  const rondo_launch_t& me_;
  bench::BenchProcesses& team_;
  std::deque<TuneLane> lanes_;
};

Status measure(const TuneRankOptions& options, const rondo_launch_t& me) {
  const auto kind = bench::kind_by_name(options.collective);
  if (!kind) return fail(StatusCode::kInvalidArgument, "no collective '{}'", options.collective);
  RONDO_TRY(const auto team, bench::BenchProcesses::meet(me, kMeetSeconds, kMeetSeconds));
  RONDO_TRY(const std::string lines, TuneProcess(options, *kind, me, *team).run());
  if (me.local_rank > 0) return ok_status();
  return write_output(options.file, lines);
}

}  // namespace

int tune_rank(const TuneRankOptions& options) {
  rondo_launch_t me;
  if (rondo_launch_read(&me) < 0) return 1;
  const Status measured = measure(options, me);
  if (!measured.ok()) fmt::print(stderr, "process {}: {}\n", me.rank, measured.error().text);
  return measured.ok() ? 0 : 1;
}

}  // namespace rondo::cli
