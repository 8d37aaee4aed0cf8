// SPDX-License-Identifier: Apache-2.0
// fault_sweep: lets the Nth call of every kind fail in every stage of a job, for every N.
//
//   fault_sweep --short                           a few N of each but of allocations
//   fault_sweep                                   all of them
//   fault_sweep threads init socket               all N of these
//   fault_sweep threads init socket 3 [victim]    this one
// Exits 1 if any process aborted, hung, leaked something, or failed afterwards.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/faults/job.h"

namespace rondo::test {
namespace {

constexpr double kSeconds = 600;      // of a job that hangs
constexpr std::uint64_t kShort = 2;   // N of each kind, in a short sweep
constexpr std::size_t kTogether = 6;  // concurrent jobs; they mostly wait

struct Selection {
  std::string setting, stage, kind;  // empty: all
  std::uint64_t nth = 0;             // 0: all
  int victim = -1;                   // -1: all
  bool few = false;
};

std::string words(const Injection& one) {
  return fmt::format("{} {} {} {} {}", name_of(one.setting), name_of(one.stage), name_of(one.kind),
                     one.nth, one.victim);
}

// The N of one kind that are tried: all, or a few from the first to the last.
std::vector<std::uint64_t> chosen(std::uint64_t calls, bool few) {
  std::vector<std::uint64_t> all;
  const std::uint64_t step = few ? std::max<std::uint64_t>(1, calls / kShort) : 1;
  for (std::uint64_t n = 1; n <= calls; n += step) all.push_back(n);
  return all;
}

// Results that the worker processes leave for the sweep, by job.
struct Seen {
  bool tried, fired, complained;
  std::uint64_t calls;
};

class Sweep {
 public:
  Sweep(Selection selection, std::string program)
      : selection_(std::move(selection)), program_(std::move(program)) {}

  int run() {
    // Jobs without a fault count the calls that can fail.
    std::vector<Injection> jobs;
    for (int s = 0; s < static_cast<int>(Setting::kCount); ++s)
      for (int t = 0; t < static_cast<int>(Stage::kCount); ++t)
        for (int k = 1; k < static_cast<int>(Kind::kCount); ++k)
          plan({static_cast<Setting>(s), static_cast<Stage>(t), static_cast<Kind>(k), 0, 0}, &jobs);
    if (selection_.nth != 0) {
      for (Injection& one : jobs) one.nth = selection_.nth;
    } else {
      const std::vector<Seen> counts = try_all(jobs);
      std::vector<Injection> failing;
      for (std::size_t i = 0; i < jobs.size(); ++i)
        for (const std::uint64_t n : chosen(counts[i].calls, selection_.few)) {
          failing.push_back(jobs[i]);
          failing.back().nth = n;
        }
      jobs = std::move(failing);
      fmt::print("{} faults to try\n", jobs.size());
      std::fflush(stdout);
    }
    try_all(jobs);
    fmt::print("{} faults in {} jobs: {} complaints\n", fired_, tried_, complaints_);
    return complaints_ == 0 && tried_ > 0 ? 0 : 1;
  }

 private:
  static bool fits(const std::string& wanted, std::string_view name) {
    return wanted.empty() || wanted == name;
  }

  void plan(Injection one, std::vector<Injection>* jobs) const {
    if (!fits(selection_.setting, name_of(one.setting)) ||
        !fits(selection_.stage, name_of(one.stage)) || !fits(selection_.kind, name_of(one.kind)))
      return;
    if (selection_.few && one.kind == Kind::kAllocation) return;  // hundreds in every stage
    const bool apart = one.setting == Setting::kProcesses || one.setting == Setting::kHosts;
    for (one.victim = 0; one.victim < (apart ? 2 : 1); ++one.victim)
      if (selection_.victim < 0 || selection_.victim == one.victim) jobs->push_back(one);
  }

  Seen try_one(const Injection& one) const {
    const Verdict verdict = run_job(one, kSeconds);
    if (!verdict.complaint.empty()) {
      fmt::print("{}\n    {} {}\n", verdict.complaint, program_, words(one));
      std::fflush(stdout);
    }
    return {true, verdict.fired, !verdict.complaint.empty(), verdict.calls};
  }

  // Uses processes: forking next to threads would copy their locks.
  std::vector<Seen> try_all(const std::vector<Injection>& jobs) {
    if (jobs.empty()) return {};
    const std::size_t bytes = jobs.size() * sizeof(Seen);
    auto* shared = static_cast<Seen*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    std::vector<pid_t> workers;
    for (std::size_t w = 0; w < kTogether; ++w) {
      workers.push_back(fork());
      if (workers.back() != 0) continue;
      for (std::size_t i = w; i < jobs.size(); i += kTogether) shared[i] = try_one(jobs[i]);
      _exit(0);
    }
    for (const pid_t worker : workers) waitpid(worker, nullptr, 0);
    const std::vector<Seen> seen(shared, shared + jobs.size());
    munmap(shared, bytes);
    for (const Seen& one : seen) {
      tried_ += one.tried;
      fired_ += one.fired;
      complaints_ += one.complained || !one.tried;
    }
    return seen;
  }

  const Selection selection_;
  const std::string program_;
  int tried_ = 0, fired_ = 0, complaints_ = 0;
};

}  // namespace
}  // namespace rondo::test

int main(int argc, char** argv) {
  rondo::test::Selection wanted;
  std::vector<std::string> rest;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--short") == 0)
      wanted.few = true;
    else
      rest.emplace_back(argv[i]);
  }
  rest.resize(5);
  wanted.setting = rest[0], wanted.stage = rest[1], wanted.kind = rest[2];
  wanted.nth = std::strtoull(rest[3].c_str(), nullptr, 10);
  if (!rest[4].empty()) wanted.victim = std::atoi(rest[4].c_str());
  return rondo::test::Sweep(wanted, argv[0]).run();
}
