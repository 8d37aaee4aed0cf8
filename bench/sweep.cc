// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <thread>

#include "bench/measure.h"
#include "bench/placement.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "bench/roofline.h"
#include "bench/split.h"
#include "bench/standard_output.h"
#include "bench/sweep_facts.h"
#include "bench/watchdog.h"

namespace rondo::bench {
namespace {

// State that all threads of a process share.
class Process {
 public:
  Process(const ProcessRun& run, BenchProcesses& processes)
      : run_(run),
        options_(run.options),
        processes_(processes),
        team_(processes, run.options.threads),
        placement_(run.options, run.launch, processes.size()),
        ranks_(processes.size() * run.options.threads * run.options.gpus),
        split_(Split::from_environment()) {
    context_.arguments = run.arguments;
    context_.start_time = time_of_day();
    context_.ranks = ranks_, context_.processes = processes.size();
  }

  int go() {
    if (const int refused = refuse(); refused != kOk) return refused;
    std::vector<std::thread> threads;
    for (int t = 1; t < options_.threads; ++t) threads.emplace_back([this, t] { thread(t); });
    thread(0);
    for (std::thread& other : threads) other.join();
    if (processes_.rank() != 0) return exit_code_;
    if (output_error_ != 0) throw_output_lost(output_error_);
    return finish();
  }

 private:
  using Lanes = std::vector<std::unique_ptr<Lane>>;

  // Refuses what cannot work; all processes get the same result.
  int refuse() const {
    const auto complain = [&](const std::string& text) {
      if (processes_.rank() == 0) print_error(options_.command, text);
    };
    if (!split_) return complain(split_.error().text), kInvalidUse;
    const std::set<int> groups = split_->sizes(ranks_);
    const int ranks = *groups.begin();
    if (options_.kind == Kind::kHyperCube && (ranks & (ranks - 1)) != 0)
      return complain(fmt::format("a hypercube has 2, 4, 8 ... ranks, not {}", ranks)), kInvalidUse;
    if (options_.kind == Kind::kHyperCube && options_.gpus > 1)
      return complain("a step of the hypercube needs the one before: use -t instead of -g"),
             kInvalidUse;
    if (options_.root >= ranks)
      return complain(fmt::format("-r {}: there are only ranks 0 to {}", options_.root, ranks - 1)),
             kInvalidUse;
    const Needs needs = needs_of(options_, groups);
    if (const std::string misfit = placement_.misfit(); !misfit.empty())
      return complain(misfit), kInvalidUse;
    const auto here = static_cast<std::size_t>(placement_.processes_here());
    const std::size_t per_rank =
        std::max(needs.send, options_.rotate) + std::max(needs.recv, options_.rotate);
    const std::size_t all = per_rank * here * static_cast<std::size_t>(options_.threads) *
                            static_cast<std::size_t>(options_.gpus);
    // Free memory changes between the processes' checks, so only process 0 decides.
    if (processes_.rank() == 0 && all > available_memory())
      return complain(fmt::format(
                 "the buffers of this host's ranks take {:.1f} GiB, but only {:.1f} GiB "
                 "are free: use a smaller -e, or fewer ranks",
                 static_cast<double>(all) / (1 << 30),
                 static_cast<double>(available_memory()) / (1 << 30))),
             kInvalidUse;
    return kOk;
  }

  void thread(int index) {
    Lanes lanes;
    const Status outcome = work(index, lanes);
    if (!outcome) give_up(outcome.error(), lanes);
    {
      std::lock_guard lock(mutex_);
      for (const auto& lane : lanes) std::erase(alive_, &lane->backend());
    }
    if (outcome)
      for (const auto& lane : lanes) lane->backend().leave();
  }

  void give_up(const Error& error, Lanes& lanes) {
    // The timeout of another rank can end this one's call moments before its own.
    const double grace = error.code == StatusCode::kRemoteError ? Watchdog::kGraceSeconds : 0;
    const bool timed_out = watchdog_ && watchdog_->fires_within(grace);
    {
      std::lock_guard lock(mutex_);
      if (exit_code_ == kOk) {
        exit_code_ = timed_out ? kTimedOut : exit_code_of(error.code);
        progress_.clear();
        const std::string text = timed_out ? fmt::format("no result within -T {} s for {}",
                                                         options_.timeout, measured_now_)
                                           : error.text;
        print_error(options_.command, text);
        run_result_.errors.push_back(text);
      }
    }
    team_.leave(error);
    for (const auto& lane : lanes) lane->backend().abort();
  }

  Status work(int index, Lanes& lanes) {
    RONDO_CHECK_OK(join(index, lanes));
    RONDO_CHECK_OK(introduce(index, lanes));
    const Bench bench{options_, team_, index, lanes};
    const std::vector<RowPlan> rows = rows_of_cycle();
    if (index == 0) progress_.expect(rows.size() * static_cast<std::size_t>(options_.cycles));
    for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle)
      for (const RowPlan& plan : rows) {
        RONDO_TRY(const bool goes_on, row(bench, plan.test, plan.bytes));
        if (!goes_on) return ok_status();
      }
    return account_memory(index, lanes);
  }

  struct RowPlan {
    Test test;
    std::size_t bytes;
  };
  std::vector<RowPlan> rows_of_cycle() {
    const int roots = info(options_.kind).rooted && options_.root == kAllRoots
                          ? *split_->sizes(ranks_).begin()
                          : 1;
    const std::vector<Op> ops = info(options_.kind).reduces ? options_.ops : std::vector{Op::kNone};
    const std::vector<ncclDataType_t> types =
        info(options_.kind).sized ? options_.types : std::vector{ncclInt8};
    std::vector<RowPlan> rows;
    for (const ncclDataType_t type : types)
      for (const Op op : ops) {
        if (op != Op::kNone && !supported(op, type)) continue;
        for (int i = 0; i < roots; ++i) {
          const int root = roots > 1 ? i : std::max(options_.root, 0);
          for (const std::size_t bytes : sweep_sizes(options_))
            rows.push_back({{options_.kind, type, op, root, false}, bytes});
        }
      }
    return rows;
  }

  Status join(int index, Lanes& lanes) {
    const Needs needs = needs_of(options_, split_->sizes(ranks_));
    for (int g = 0; g < options_.gpus; ++g) {
      const int number = team_.member(index) * options_.gpus + g;
      lanes.push_back(
          std::make_unique<Lane>(run_.make_backend(), number, split_->place_of(number, ranks_)));
    }
    Backend& first = lanes[0]->backend();
    JoinOptions join{.ranks = 0,
                     .rank = 0,
                     .id = {},
                     .own_stream = options_.own_stream,
                     .cta_policy = options_.cta_policy};
    RONDO_TRY(const auto ids, ids_of_groups(index, lanes));
    ncclResult_t result = lanes.size() > 1 ? first.group_start() : ncclSuccess;
    for (const auto& lane : lanes) {
      join.rank = lane->rank(), join.ranks = lane->ranks();
      join.id = ids.at(lane->group());
      join.device = placement_.device_of(index, lane->number() % options_.gpus);
      if (result == ncclSuccess) result = lane->backend().join(join);
    }
    if (lanes.size() > 1)
      if (const ncclResult_t ended = first.group_end(); result == ncclSuccess) result = ended;
    if (result != ncclSuccess)
      return fail(static_cast<StatusCode>(result), "rank {}: joining: {}", lanes[0]->number(),
                  first.last_error());
    if (options_.bind) {
      const int before = std::max(run_.launch.local_rank, 0) * options_.threads;
      bind_to_cpu(before + index);
    }
    {
      std::lock_guard lock(mutex_);
      for (const auto& lane : lanes) {
        alive_.push_back(&lane->backend());
        initial_ = std::max(initial_, lane->backend().memory_used());
      }
    }
    for (const auto& lane : lanes) RONDO_CHECK_OK(lane->allocate(options_, needs.send, needs.recv));
    return register_buffers(lanes);
  }

  // Rank 0 of every group creates the group's id.
  Result<std::map<int, ncclUniqueId>> ids_of_groups(int index, const Lanes& lanes) {
    std::string mine;
    for (const auto& lane : lanes) {
      if (lane->rank() != 0) continue;
      ncclUniqueId id;
      if (const ncclResult_t made = lane->backend().make_id(&id); made != ncclSuccess)
        return fail(static_cast<StatusCode>(made), "ncclGetUniqueId: {}",
                    lane->backend().last_error());
      const int group = lane->group();
      mine.append(reinterpret_cast<const char*>(&group), sizeof group);
      mine.append(id.internal, sizeof id.internal);
    }
    RONDO_TRY(const auto all, team_.all_gather(index, mine));
    std::map<int, ncclUniqueId> ids;
    constexpr std::size_t kEach = sizeof(int) + sizeof(ncclUniqueId);
    for (const std::string& theirs : all)
      for (std::size_t at = 0; at + kEach <= theirs.size(); at += kEach) {
        int group = 0;
        std::memcpy(&group, theirs.data() + at, sizeof group);
        std::memcpy(ids[group].internal, theirs.data() + at + sizeof group, sizeof(ncclUniqueId));
      }
    for (const auto& lane : lanes)
      if (!ids.contains(lane->group()))
        return fail(StatusCode::kInternalError, "rank 0 of group {} sent no unique id",
                    lane->group());
    return ids;
  }

  Status register_buffers(const Lanes& lanes) {
    Backend& first = lanes[0]->backend();
    ncclResult_t result = lanes.size() > 1 ? first.group_start() : ncclSuccess;
    Status outcome = ok_status();
    for (const auto& lane : lanes)
      if (outcome) outcome = lane->register_buffers(options_);
    if (lanes.size() > 1) result = first.group_end();
    RONDO_CHECK_OK(outcome);
    if (result != ncclSuccess)
      return fail(static_cast<StatusCode>(result), "registering buffers: {}", first.last_error());
    return ok_status();
  }

  // Gathers the ranks' places; process 0 prints them.
  Status introduce(int index, const Lanes& lanes) {
    RONDO_TRY(std::string mine, placement_.describe(lanes));
    RONDO_TRY(auto all, team_.all_gather(index, mine));
    if (index != 0) return ok_status();
    if (options_.timeout > 0) {
      watchdog_.emplace([this] { abort_all(); });
      // Aborts of communicators do not end exchanges of the team.
      processes_.set_deadline(options_.timeout + Watchdog::kGraceSeconds);
    }
    if (processes_.rank() != 0) return ok_status();
    context_.library_version = lanes[0]->backend().version();
    context_.devices = ranks_of(all);
    print(preamble_of(context_, options_, [&](int rank) { return split_->group_of(rank); }));
    return ok_status();
  }

  // Measures both sides of one row, then prints it as a whole. False in all processes: process 0
  // could not print an earlier row.
  Result<bool> row(const Bench& bench, Test test, std::size_t bytes) {
    Row row;
    for (const bool in_place : {false, true}) {
      if (in_place && !info(options_.kind).in_place) continue;
      test.in_place = in_place;
      if (bench.thread == 0) {
        progress_.show(run_result_.rows.size(), words_of(test, bytes));
        std::lock_guard lock(mutex_);
        measured_now_ = words_of(test, bytes);
      }
      if (bench.thread == 0 && watchdog_) watchdog_->arm(options_.timeout);
      const Layout layout = layout_of(
          {test.kind, test.type, 0, split_->place_of(0, ranks_).ranks, test.root, options_.spread},
          bytes);
      RONDO_TRY(Measured measured, measure(bench, test, bytes));
      const bool lost = bench.thread == 0 && output_error_ != 0;
      RONDO_TRY(auto all,
                team_.all_gather(bench.thread, lost ? std::string() : pack(measured.reports)));
      if (bench.thread == 0 && watchdog_) watchdog_->disarm();
      if (all[0].empty()) return false;
      if (team_.member(bench.thread) != 0) continue;
      std::vector<RankMeasurement> reports;
      for (const std::string& member : all)
        for (RankMeasurement& report : unpack(member)) reports.push_back(std::move(report));
      const bool checked = options_.check != 0 && info(options_.kind).sized;
      Side side = combine(reports, options_, layout, checked);
      // Groups share links and networks, so the limit of each group is unknown.
      const bool one_group = *split_->sizes(ranks_).begin() == ranks_;
      const Roof roof =
          one_group ? roof_of(context_.devices, test, options_.spread, bytes) : Roof{};
      if (side.time_us > 0) side.roofline = roof.us / side.time_us, side.roof_of = roof.of;
      row.bytes = layout.bytes, row.count = layout.count;
      row.plan = reports[0].plan, row.iterations = measured.iterations;
      if (side.wrong > 0) run_result_.wrong += side.wrong;
      (in_place ? row.in_place : row.out_of_place) = std::move(side);
    }
    if (team_.member(bench.thread) == 0) report(row, test);
    return true;
  }

  void report(Row& row, const Test& test) {
    row.type = info(options_.kind).sized ? info(test.type).name : "none";
    row.op = name(test.op);
    row.root = info(options_.kind).rooted ? test.root : -1;
    row.timestamp = time_of_day();
    progress_.clear();
    std::string text = table_row(options_, row) + '\n';
    for (const Side* side : {&row.out_of_place, &row.in_place})
      if (!side->example.empty())
        text += fmt::format("# wrong data {}: {}\n",
                            side == &row.in_place ? "in place" : "out of place", side->example);
    print(text);
    run_result_.rows.push_back(std::move(row));
  }

  Status account_memory(int index, const Lanes& lanes) {
    std::size_t mine[3] = {};
    for (const auto& lane : lanes) {
      mine[0] = std::max(mine[0], initial_);
      mine[1] = std::max(mine[1], lane->buffer_bytes());
      mine[2] = std::max(mine[2], lane->backend().memory_used());
    }
    RONDO_TRY(auto all,
              team_.all_gather(index, std::string(reinterpret_cast<char*>(mine), sizeof mine)));
    if (team_.member(index) != 0) return ok_status();
    Memory& peak = run_result_.memory;
    for (const std::string& theirs : all) {
      std::size_t other[3] = {};
      std::memcpy(other, theirs.data(), std::min(theirs.size(), sizeof other));
      peak.initial = std::max(peak.initial, other[0]);
      peak.buffers = std::max(peak.buffers, other[1]);
      peak.collective = std::max(peak.collective, other[2] > other[0] ? other[2] - other[0] : 0);
    }
    return ok_status();
  }

  int finish() {
    context_.end_time = time_of_day();
    return conclude(run_.out, options_, context_, run_result_, exit_code_);
  }

  void abort_all() {
    std::vector<Backend*> alive;
    {
      std::lock_guard lock(mutex_);
      alive = alive_;
    }
    for (Backend* backend : alive) backend->abort();
  }

  // Process 0's output. It must not end at the first failed write: the others would print that it
  // has left. row() tells them to end.
  void print(const std::string& text) {
    if (output_error_ != 0) return;
    const std::size_t put = std::fwrite(text.data(), 1, text.size(), run_.out);
    if (put < text.size() || std::fflush(run_.out) != 0) output_error_ = errno;
  }

  const ProcessRun& run_;
  Progress progress_{run_.progress};
  const Options& options_;
  BenchProcesses& processes_;
  BenchThreads team_;
  Placement placement_;
  const int ranks_;
  const Result<Split> split_;
  std::mutex mutex_;
  std::vector<Backend*> alive_;
  std::string measured_now_;
  std::size_t initial_ = 0;
  int exit_code_ = kOk;
  int output_error_ = 0;  // errno; only thread 0 uses it
  Context context_;
  Run run_result_;
  std::optional<Watchdog> watchdog_;
};

}  // namespace

int run_process(const ProcessRun& run) {
  auto processes = BenchProcesses::meet(run.launch, 60);
  if (!processes) {
    print_error(run.options.command, processes.error().text);
    return exit_code_of(processes.code());
  }
  return Process(run, **processes).go();
}

}  // namespace rondo::bench
