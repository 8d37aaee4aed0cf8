// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace rondo::bench {
namespace {

constexpr std::size_t kMaxSamples = 100'000;  // per measurement, sent to rank 0
constexpr int kMaxIterations = 10'000'000;

double now_us(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

class Measurement {
 public:
  Measurement(const Bench& bench, const Test& test, std::size_t bytes)
      : bench_(bench), options_(bench.options), test_(test), bytes_(bytes) {
    calls_.resize(bench.lanes.size());
    aggregate_ = options_.aggregate;
    for (const auto& lane : bench.lanes)
      if (GpuLane* gpu = lane->backend().gpu(); gpu != nullptr) gpus_.push_back(gpu);
  }

  Result<Measured> run() {
    for (const auto& lane : bench_.lanes) RONDO_CHECK_OK(lane->begin(test_, options_, bytes_));
    Measured measured;
    measured.reports.resize(bench_.lanes.size());
    const Status outcome = warm_time_check(measured);
    for (const auto& lane : bench_.lanes) lane->end();
    RONDO_CHECK_OK(outcome);
    for (RankMeasurement& report : measured.reports) report.plan = plan_;
    return measured;
  }

 private:
  Status warm_time_check(Measured& measured) {
    const bool check = options_.check != 0;
    for (const auto& lane : bench_.lanes)
      RONDO_CHECK_OK(lane->prepare_timed(recipe(Values::kExact, 0)));
    RONDO_CHECK_OK(together());
    double before = now_us(CLOCK_MONOTONIC);
    for (int i = 0; i < options_.warmup; ++i) RONDO_CHECK_OK(iterate(static_cast<std::size_t>(i)));
    RONDO_CHECK_OK(settle());
    RONDO_TRY(int iterations, agree_on_iterations(now_us(CLOCK_MONOTONIC) - before));
    measured.iterations = iterations;
    samples_.assign(static_cast<std::size_t>(iterations), 0);

    RONDO_CHECK_OK(together());
    RONDO_TRY(double total, options_.check == kCheckEvery ? timed_and_checked(iterations, measured)
                            : on_gpus()                   ? timed_on_gpus(iterations)
                                                          : timed(iterations));
    plan_ = bench_.lanes[0]->backend().last_plan();
    const double calls =
        static_cast<double>(iterations) * options_.aggregate * std::max(options_.graphs, 1);
    for (RankMeasurement& report : measured.reports) report.mean_us = total / calls;
    keep_samples(measured.reports);
    const bool rotates = bench_.lanes[0]->turns() > 1;
    if (check && options_.check != kCheckEvery && !rotates)
      RONDO_CHECK_OK(check_data(measured, /*timed=*/true));
    if (!check || !info(test_.kind).sized) return ok_status();
    std::uint32_t seed = 1;
    for (int i = 0; i < std::max(options_.check, options_.check == kCheckEvery ? 1 : 0); ++i)
      for (Values values : options_.values) RONDO_CHECK_OK(checked(values, seed++, measured));
    return ok_status();
  }

  Recipe recipe(Values values, std::uint32_t seed) const {
    const bool reduces = info(test_.kind).reduces;
    const auto salt = static_cast<std::uint32_t>(bytes_ * 2 + test_.in_place);
    return {test_.type, reduces ? test_.op : Op::kNone, values, salt * 1000003u + seed,
            bench_.team.size() * options_.gpus};
  }

  Error failed(ncclResult_t result, const char* what) {
    const Lane& lane = *bench_.lanes[0];
    return fail(static_cast<StatusCode>(result), "rank {}: {} {} of {} bytes: {}: {}",
                lane.number(), what, info(test_.kind).name, bytes_, ncclGetErrorString(result),
                bench_.lanes[0]->backend().last_error());
  }

  // Issues the calls of one iteration; does not wait for them.
  ncclResult_t issue(std::size_t turn) {
    Backend& first = bench_.lanes[0]->backend();
    for (std::size_t i = 0; i < calls_.size(); ++i) calls_[i] = bench_.lanes[i]->call(turn);
    if (aggregate_ == 1 && calls_.size() == 1) return first.issue(calls_[0]);
    ncclResult_t worst = first.group_start();
    for (int i = 0; i < aggregate_; ++i)
      for (std::size_t lane = 0; lane < calls_.size(); ++lane)
        if (const ncclResult_t result = bench_.lanes[lane]->backend().issue(calls_[lane]);
            worst == ncclSuccess)
          worst = result;
    const ncclResult_t ended = first.group_end();
    return worst != ncclSuccess ? worst : ended;
  }

  ncclResult_t wait() {
    for (const auto& lane : bench_.lanes)
      if (const ncclResult_t result = lane->backend().wait(); result != ncclSuccess) return result;
    return ncclSuccess;
  }

  ncclResult_t barrier() {
    Backend& first = bench_.lanes[0]->backend();
    if (bench_.lanes.size() == 1) {
      const ncclResult_t result = first.barrier();
      return result != ncclSuccess ? result : wait();
    }
    ncclResult_t worst = first.group_start();
    for (const auto& lane : bench_.lanes)
      if (const ncclResult_t result = lane->backend().barrier(); worst == ncclSuccess)
        worst = result;
    const ncclResult_t ended = first.group_end();
    if (worst == ncclSuccess) worst = ended;
    return worst != ncclSuccess ? worst : wait();
  }

  Status iterate(std::size_t turn) {
    if (const ncclResult_t result = issue(turn); result != ncclSuccess)
      return failed(result, "calling");
    return ok_status();
  }

  Status settle() {
    if (const ncclResult_t result = wait(); result != ncclSuccess)
      return failed(result, "waiting for");
    return ok_status();
  }

  Status together() {
    RONDO_CHECK_OK(bench_.team.barrier(bench_.thread));
    if (const ncclResult_t result = barrier(); result != ncclSuccess)
      return failed(result, "barrier before");
    return ok_status();
  }

  // -n, or more if --min-time needs more at the warm-up's pace; the same on all ranks.
  Result<int> agree_on_iterations(double warmup_us) {
    int iterations = options_.iterations;
    if (options_.min_time <= 0) return iterations;
    if (options_.warmup > 0 && warmup_us > 0) {
      const double each = warmup_us / options_.warmup;
      const double needed = std::ceil(options_.min_time * 1e6 / each);
      iterations = static_cast<int>(
          std::clamp(needed, static_cast<double>(iterations), double{kMaxIterations}));
    }
    const std::string mine(reinterpret_cast<const char*>(&iterations), sizeof iterations);
    RONDO_TRY(auto all, bench_.team.all_gather(bench_.thread, mine));
    for (const std::string& theirs : all) {
      int other = 0;
      std::memcpy(&other, theirs.data(), std::min(theirs.size(), sizeof other));
      iterations = std::max(iterations, other);
    }
    return iterations;
  }

  Result<double> timed(int iterations) {
    const clockid_t clock = options_.cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const bool wait_each = options_.blocking != 0, barrier_each = options_.blocking == 1;
    ncclResult_t result = ncclSuccess;
    double excluded = 0;
    const double start = now_us(clock);
    double last = start;
    for (int i = 0; i < iterations; ++i) {
      result = issue(static_cast<std::size_t>(i));
      if (result == ncclSuccess && wait_each) result = wait();
      if (result == ncclSuccess && barrier_each) result = barrier();
      const double now = now_us(clock);
      samples_[static_cast<std::size_t>(i)] = now - last;
      last = now;
      if (result != ncclSuccess) return failed(result, "calling");
      if (options_.blocking == 3) {
        result = barrier();
        last = now_us(clock);
        excluded += last - now;
      }
    }
    RONDO_CHECK_OK(settle());
    const double total = now_us(clock) - start - excluded;
    // On a stream the end of a single iteration is not visible.
    if (options_.own_stream && !wait_each)
      std::fill(samples_.begin(), samples_.end(), total / iterations);
    return total;
  }

  // With -C, or if every iteration waits on the host (-z), the host's clock times GPUs too.
  bool on_gpus() const { return !gpus_.empty() && options_.blocking == 0 && !options_.cpu_time; }

  // Time of the slowest lane by events on its stream: device time, not the time to issue calls.
  Result<double> timed_on_gpus(int iterations) {
    const bool marks = options_.per_iteration;
    if (marks)
      for (GpuLane* gpu : gpus_) RONDO_CHECK_OK(gpu->marks(samples_.size()));
    if (options_.graphs > 0) RONDO_CHECK_OK(capture(iterations));
    for (GpuLane* gpu : gpus_) RONDO_CHECK_OK(gpu->start_timer());
    if (options_.graphs > 0) {
      for (int i = 0; i < options_.graphs; ++i) RONDO_CHECK_OK(gpus_[0]->replay());
    } else {
      for (std::size_t i = 0; i < samples_.size(); ++i) {
        RONDO_CHECK_OK(iterate(i));
        if (marks)
          for (GpuLane* gpu : gpus_) RONDO_CHECK_OK(gpu->mark(i));
      }
    }
    for (GpuLane* gpu : gpus_) RONDO_CHECK_OK(gpu->stop_timer());
    RONDO_CHECK_OK(settle());
    double total = 0;
    for (const GpuLane* gpu : gpus_) {
      RONDO_TRY(const double took, gpu->elapsed_us());
      total = std::max(total, took);
    }
    const double each = total / static_cast<double>(iterations) / std::max(options_.graphs, 1);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      samples_[i] = marks ? 0 : each;
      for (const GpuLane* gpu : gpus_) {
        if (!marks) break;
        RONDO_TRY(const double took, gpu->mark_us(i));
        samples_[i] = std::max(samples_[i], took);
      }
    }
    return total;
  }

  Status capture(int iterations) {
    RONDO_CHECK_OK(GpuLane::begin_capture(gpus_));
    Status outcome = ok_status();
    for (int i = 0; i < iterations && outcome; ++i) outcome = iterate(static_cast<std::size_t>(i));
    const Status ended = GpuLane::end_capture(gpus_);  // also after a failure: streams stay usable
    return outcome ? ended : outcome;
  }

  Result<double> timed_and_checked(int iterations, Measured& measured) {
    double total = 0;
    for (int i = 0; i < iterations; ++i) {
      const Values values = options_.values[static_cast<std::size_t>(i) % options_.values.size()];
      for (const auto& lane : bench_.lanes)
        RONDO_CHECK_OK(lane->prepare(recipe(values, 100u + static_cast<std::uint32_t>(i))));
      RONDO_CHECK_OK(together());
      const double start = now_us(CLOCK_MONOTONIC);
      RONDO_CHECK_OK(iterate(0));
      RONDO_CHECK_OK(settle());
      const double took = now_us(CLOCK_MONOTONIC) - start;
      samples_[static_cast<std::size_t>(i)] = took;
      total += took;
      RONDO_CHECK_OK(check_data(measured, /*timed=*/false));
    }
    return total;
  }

  Status checked(Values values, std::uint32_t seed, Measured& measured) {
    for (const auto& lane : bench_.lanes) RONDO_CHECK_OK(lane->prepare(recipe(values, seed)));
    RONDO_CHECK_OK(together());
    // One call, also with -m: grouped calls in place would reduce their own results.
    const int aggregate = std::exchange(aggregate_, 1);
    const Status outcome = iterate(0);
    aggregate_ = aggregate;
    RONDO_CHECK_OK(outcome);
    RONDO_CHECK_OK(settle());
    return check_data(measured, /*timed=*/false);
  }

  Status check_data(Measured& measured, bool timed) {
    if (!info(test_.kind).sized) return ok_status();
    for (std::size_t i = 0; i < bench_.lanes.size(); ++i) {
      RankMeasurement& report = measured.reports[i];
      RONDO_TRY(const std::size_t wrong, bench_.lanes[i]->wrong(timed, &report.example));
      report.wrong += wrong;
    }
    return ok_status();
  }

  void keep_samples(std::vector<RankMeasurement>& reports) const {
    const std::size_t step = samples_.size() / kMaxSamples + 1;
    for (RankMeasurement& report : reports)
      for (std::size_t i = 0; i < samples_.size(); i += step)
        report.samples_us.push_back(static_cast<float>(samples_[i] / options_.aggregate));
  }

  const Bench& bench_;
  const Options& options_;
  const Test test_;
  const std::size_t bytes_;
  int aggregate_ = 1;
  std::vector<Call> calls_;
  std::vector<GpuLane*> gpus_;  // of the lanes; empty: host memory
  std::vector<double> samples_;
  std::string plan_;
};

}  // namespace

Result<Measured> measure(const Bench& bench, const Test& test, std::size_t bytes) {
  return Measurement(bench, test, bytes).run();
}

}  // namespace rondo::bench
