// SPDX-License-Identifier: Apache-2.0
#include "bench/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/gpu.h"
#include "bench/measure.h"
#include "bench/placement.h"
#include "bench/sweep_facts.h"
#include "kernels/algorithms/table.h"

namespace rondo::bench {
namespace {

constexpr double kMeetSeconds = 60;
constexpr std::size_t kMaxWrong = 100;
constexpr const char* kPlanned = "planned";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<Op> ops_of(Kind kind, ncclDataType_t type) {
  if (!info(kind).reduces) return {Op::kNone};
  std::vector<Op> ops;
  for (const Op op : {Op::kSum, Op::kProd, Op::kMin, Op::kMax, Op::kAvg, Op::kMulSum, Op::kBand,
                      Op::kBor, Op::kBxor})
    if (supported(op, type)) ops.push_back(op);
  return ops;
}

// NCCL_ALGO of this process while it exists; what the user has set comes back.
class AlgorithmOnly {
 public:
  explicit AlgorithmOnly(const std::string& algorithm) {
    if (algorithm == kPlanned) return;
    const char* set = std::getenv("NCCL_ALGO");
    before_ = set == nullptr ? "" : set;
    changed_ = true;
    setenv("NCCL_ALGO", algorithm.c_str(), 1);
  }
  ~AlgorithmOnly() {
    if (!changed_) return;
    before_.empty() ? unsetenv("NCCL_ALGO") : setenv("NCCL_ALGO", before_.c_str(), 1);
  }
  AlgorithmOnly(const AlgorithmOnly&) = delete;
  AlgorithmOnly& operator=(const AlgorithmOnly&) = delete;

 private:
  std::string before_;
  bool changed_ = false;
};

class SelfTest {
 public:
  SelfTest(const SelfTestRun& run, BenchProcesses& processes)
      : run_(run),
        processes_(processes),
        team_(processes, 1),
        meetings_(processes, run.launch, run.make_backend),
        start_(Clock::now()) {
    types_ = run.options.types;
    kinds_ = run.options.kinds;
    if (types_.empty())
      for (const TypeInfo& type : all_types()) types_.push_back(type.type);
    if (kinds_.empty())
      for (const KindInfo& kind : all_kinds()) kinds_.push_back(kind.kind);
  }

  Result<SelfTestResult> go() {
    RONDO_TRY(result_.of_ranks, processes_.all_gather(run_.mine));
    Status outcome = ok_status();
    do {
      outcome = round();
      ++result_.rounds;
    } while (outcome && go_on());
    if (!outcome) result_.errors.push_back(outcome.error().text);
    result_.seconds = seconds_since(start_);
    for (auto& [key, way] : ways_) result_.ways.push_back(std::move(way));
    return std::move(result_);
  }

 private:
  int size() const { return processes_.size(); }

  // Rank 0's clock decides for all.
  bool go_on() {
    const bool more = seconds_since(start_) < run_.options.seconds;
    const auto all = processes_.all_gather(more ? "more" : "end");
    return all.ok() && (*all)[0] == "more";
  }

  Status round() {
    RONDO_CHECK_OK(check_algorithm(kPlanned));
    for (const std::string_view algorithm : kAlgorithmNames)
      RONDO_CHECK_OK(check_algorithm(std::string(algorithm)));
    return measure_links();
  }

  Status check_algorithm(const std::string& algorithm) {
    RONDO_TRY(const ncclUniqueId id, meetings_.id_of(0));
    const AlgorithmOnly only(algorithm);
    std::vector<std::unique_ptr<Lane>> lanes(1);
    RONDO_TRY(lanes[0], meetings_.join(processes_.rank(), size(), id));
    Status outcome = check_kinds(algorithm, lanes);
    if (!outcome) {
      team_.leave(outcome.error());
      lanes[0]->backend().abort();
      return outcome;
    }
    lanes[0]->backend().leave();
    return ok_status();
  }

  Status check_kinds(const std::string& algorithm, std::span<const std::unique_ptr<Lane>> lanes) {
    Lane& lane = *lanes[0];
    if (result_.ranks.empty()) {
      Placement placement(meetings_.options(), run_.launch, size());
      RONDO_TRY(const std::string mine, placement.describe(lanes));
      RONDO_TRY(const auto all, team_.all_gather(0, mine));
      result_.ranks = ranks_of(all);
    }
    Needs needs;
    for (const Kind kind : kinds_) {
      Options each = meetings_.options();
      each.kind = kind;
      each.types = types_;
      each.min_bytes = each.max_bytes = run_.options.large_bytes;
      raise_needs(each, size(), &needs);
    }
    RONDO_CHECK_OK(lane.allocate(meetings_.options(), needs.send, needs.recv));
    const Bench bench{meetings_.options(), team_, 0, lanes};
    for (const Kind kind : kinds_) {
      if (kind == Kind::kHyperCube && (size() & (size() - 1)) != 0) continue;
      if (algorithm != kPlanned && !forced(lane, kind, algorithm)) continue;
      for (const ncclDataType_t type : info(kind).sized ? types_ : std::vector{ncclInt8})
        for (const Op op : ops_of(kind, type))
          RONDO_CHECK_OK(check_calls(bench, algorithm, {kind, type, op, 0, false}));
    }
    return ok_status();
  }

  // Whether this algorithm runs the collective here. NCCL_ALGO has lists for five functions.
  bool forced(Lane& lane, Kind kind, std::string_view algorithm) const {
    constexpr std::pair<Kind, Collective> kListed[] = {
        {Kind::kAllReduce, Collective::kAllReduce},
        {Kind::kBroadcast, Collective::kBroadcast},
        {Kind::kReduce, Collective::kReduce},
        {Kind::kAllGather, Collective::kAllGather},
        {Kind::kReduceScatter, Collective::kReduceScatter}};
    const auto* listed = std::find_if(std::begin(kListed), std::end(kListed),
                                      [&](const auto& one) { return one.first == kind; });
    if (listed == std::end(kListed)) return false;
    const bool has_row =
        std::any_of(std::begin(kAlgorithms), std::end(kAlgorithms), [&](const AlgorithmRow& row) {
          return name(row.algorithm) == algorithm && row.collective == listed->second;
        });
    const bool on_gpu = lane.backend().gpu() != nullptr;
    if (!has_row && !(on_gpu && algorithm == name(Algorithm::kNvls))) return false;
    const Test test{kind, ncclFloat32, info(kind).reduces ? Op::kSum : Op::kNone, 0, false};
    if (!lane.begin(test, meetings_.options(), run_.options.large_bytes)) return false;
    const bool runs = lane.backend().predicted_us(lane.call(0)) > 0;
    lane.end();
    return runs;
  }

  // Checks take 30 ns per element and rank, so only one type and operation is long.
  std::vector<std::size_t> sizes_of(const Test& test) const {
    if (!info(test.kind).sized) return {0};
    std::vector<std::size_t> sizes = run_.options.sizes;
    if (test.type == ncclFloat32 && (test.op == Op::kSum || test.op == Op::kNone))
      sizes.push_back(run_.options.large_bytes);
    return sizes;
  }

  Status check_calls(const Bench& bench, const std::string& algorithm, Test test) {
    CheckedWay& way = ways_[{std::string(info(test.kind).name), algorithm}];
    way.collective = info(test.kind).name;
    way.algorithm = algorithm;
    show(fmt::format("{} {}", way.collective, way.algorithm));
    if (info(test.kind).rooted) test.root = root_++ % size();
    for (const std::size_t bytes : sizes_of(test))
      for (const bool in_place : {false, true}) {
        if (in_place && !info(test.kind).in_place) continue;
        test.in_place = in_place;
        RONDO_TRY(const Measured measured, measure(bench, test, bytes));
        RONDO_TRY(const auto all, team_.all_gather(0, pack(measured.reports)));
        way.calls +=
            static_cast<std::uint64_t>(measured.iterations) + meetings_.options().values.size() + 1;
        for (std::size_t r = 0; r < all.size(); ++r) keep(r, unpack(all[r]), test, bytes, way);
        if (bytes == run_.options.large_bytes && !in_place && way.bytes == 0)
          time(bench, test, all, way);
      }
    return ok_status();
  }

  void keep(std::size_t rank, const std::vector<RankMeasurement>& reports, const Test& test,
            std::size_t bytes, CheckedWay& way) {
    for (const RankMeasurement& report : reports) {
      if (report.wrong == 0) continue;
      way.wrong += report.wrong;
      if (result_.wrong.size() >= kMaxWrong) continue;
      result_.wrong.push_back({way.collective, way.algorithm, std::string(info(test.type).name),
                               std::string(name(test.op)), bytes, test.in_place,
                               static_cast<int>(rank), report.wrong, report.example,
                               result_.rounds + 1});
    }
  }

  // The slowest rank's time of one call, and the model's.
  void time(const Bench& bench, const Test& test, const std::vector<std::string>& reports,
            CheckedWay& way) {
    Lane& lane = *bench.lanes[0];
    const std::size_t bytes = run_.options.large_bytes;
    if (!lane.begin(test, meetings_.options(), bytes)) return;
    way.predicted_us = lane.backend().predicted_us(lane.call(0));
    lane.end();
    way.bytes = bytes;
    for (const std::string& packed : reports)
      for (const RankMeasurement& report : unpack(packed))
        way.time_us = std::max(way.time_us, report.mean_us);
  }

  // ---- links ----

  bool same_host(int one, int other) const {
    const auto& ranks = result_.ranks;
    return ranks[static_cast<std::size_t>(one)].host == ranks[static_cast<std::size_t>(other)].host;
  }

  int local_number(int of) const {
    int number = 0;
    for (int r = 0; r < of; ++r) number += same_host(r, of);
    return number;
  }

  Status measure_links() {
    for (int from = 0; from < size(); ++from)
      for (int to = from + 1; to < size(); ++to) {
        const bool across = !same_host(from, to);
        if (across && local_number(from) != local_number(to)) continue;
        LinkRate link;
        link.from = from, link.to = to, link.across = across;
        RONDO_CHECK_OK(keep_link(link));
      }
    return measure_slow_links_again();
  }

  // Another program may have slowed a link for a moment: its best rate counts.
  Status measure_slow_links_again() {
    for (const bool across : {false, true}) {
      double best = 0;
      for (const LinkRate& link : result_.links)
        if (link.across == across) best = std::max(best, link.gbs);
      std::vector<LinkRate> slow;
      for (const LinkRate& link : result_.links)
        if (link.across == across && link.gbs < best / 2) slow.push_back(link);
      for (LinkRate& link : slow) {
        link.wrong = 0, link.gbs = 0, link.example.clear();
        RONDO_CHECK_OK(keep_link(link));
      }
    }
    return ok_status();
  }

  Status keep_link(LinkRate link) {
    show(fmt::format("link {} - {}", link.from, link.to));
    RONDO_CHECK_OK(measure_link(meetings_, run_.options.link_bytes, &link));
    const auto known = std::find_if(
        result_.links.begin(), result_.links.end(),
        [&](const LinkRate& one) { return one.from == link.from && one.to == link.to; });
    if (known == result_.links.end()) return result_.links.push_back(link), ok_status();
    link.gbs = std::max(link.gbs, known->gbs);  // of all rounds
    link.wrong += known->wrong;
    if (!known->example.empty()) link.example = known->example;
    *known = link;
    return ok_status();
  }

  void show(const std::string& what) const {
    if (run_.progress == nullptr) return;
    fmt::print(run_.progress, "\r\033[K# {}", what);
    std::fflush(run_.progress);
  }

  const SelfTestRun& run_;
  BenchProcesses& processes_;
  BenchThreads team_;
  Meetings meetings_;
  const Clock::time_point start_;
  std::vector<ncclDataType_t> types_;
  std::vector<Kind> kinds_;
  std::map<std::pair<std::string, std::string>, CheckedWay> ways_;
  int root_ = 0;
  SelfTestResult result_;
};

}  // namespace

Result<SelfTestResult> run_self_test(const SelfTestRun& run) {
  RONDO_TRY(const auto processes, BenchProcesses::meet(run.launch, kMeetSeconds));
  Result<SelfTestResult> result = SelfTest(run, *processes).go();
  if (run.progress != nullptr) fmt::print(run.progress, "\r\033[K");
  return result;
}

}  // namespace rondo::bench
