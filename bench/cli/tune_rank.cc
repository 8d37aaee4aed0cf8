// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/tune_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <vector>

#include "api/launch_env.h"
#include "base/text_file.h"
#include "bench/buffers.h"
#include "bench/kinds.h"
#include "bench/rondo_backend.h"
#include "bench/team.h"

namespace rondo::cli {
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
