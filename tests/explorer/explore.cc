// SPDX-License-Identifier: Apache-2.0
#include "tests/explorer/explore.h"

#include <algorithm>
#include <unordered_set>

#include "tests/explorer/sim_atomics.h"

namespace rondo::explorer {
namespace {

constexpr int kMaxSteps = 5000;  // of one execution; far more than any scenario needs
constexpr std::uint64_t kMaxStates = 4'000'000;
constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

struct Choice {
  int taken;
  int of;
};

class Search {
 public:
  Search(Scenario& scenario, Model model, const Mutant& mutant, const Limits& limits)
      : limits_(limits), scenario_(scenario), machine_(scenario, model, mutant, limits.time_outs) {
    SimAtomics::machine = &machine_;
  }
  ~Search() { SimAtomics::machine = nullptr; }

  Outcome run() {
    do {
      execute();
      ++outcome_.executions;
      if (outcome_.failed) return outcome_;
    } while (outcome_.states < kMaxStates && next_path());
    outcome_.complete = outcome_.states < kMaxStates;
    return outcome_;
  }

  Outcome run_one(const std::string& schedule, std::string* trace) {
    for (const char digit : schedule)
      path_.push_back({static_cast<int>(std::string(kDigits).find(digit)), 0});
    trace_ = trace;
    execute();
    return outcome_;
  }

 private:
  // Follows path_, then takes first choices until the end or a known state.
  void execute() {
    machine_.restart();
    std::size_t depth = 0;
    running_ = delays_ = 0;
    for (int count = 0;; ++count, ++outcome_.steps) {
      machine_.steps(enabled_);
      if (machine_.failed()) return fail(machine_.failure(), depth);
      if (enabled_.empty()) break;
      keep_within_limits();
      if (count == kMaxSteps) return fail("never ends", depth);
      int taken = 0;
      if (enabled_.size() > 1) {
        if (depth == path_.size()) {
          if (!seen_.insert(state()).second) return;
          ++outcome_.states;
          path_.push_back({0, static_cast<int>(enabled_.size())});
        }
        taken = path_[depth++].taken;
        if (taken < 0 || taken >= static_cast<int>(enabled_.size()))
          return fail("the schedule does not belong to this test", depth);
      }
      if (trace_ != nullptr) *trace_ += machine_.describe(enabled_[taken]) + '\n';
      const Step& step = enabled_[taken];
      if (step.kind == Step::Kind::kRun) running_ = step.actor;
      if (taken > 0) ++delays_;
      machine_.take(step);
    }
    if (!machine_.all_ended()) return fail("lost wake-up: " + machine_.who_sleeps(), depth);
    const std::string wrong = scenario_.check();
    if (!wrong.empty()) fail(wrong, depth);
  }

  // With a limit, the first choice is the actor that ran last, then stores in flight, then the next
  // actor in turn. Once the limit is reached no other choice is allowed.
  void keep_within_limits() {
    if (limits_.max_delays == Limits::kUnlimited) return;
    const auto turn = [&](const Step& step) {
      if (step.kind == Step::Kind::kDrain) return 1;
      const int behind = (step.actor - running_ + kMaxActors) % kMaxActors;
      return behind == 0 ? 0 : 1 + behind;
    };
    std::stable_sort(enabled_.begin(), enabled_.end(),
                     [&](const Step& a, const Step& b) { return turn(a) < turn(b); });
    if (delays_ == limits_.max_delays) enabled_.resize(1);
  }

  std::uint64_t state() const {
    if (limits_.max_delays == Limits::kUnlimited) return machine_.state();
    const int place = delays_ * kMaxActors + running_;
    return machine_.state() + static_cast<std::uint64_t>(place) * 0x9e3779b97f4a7c15u;
  }

  bool next_path() {
    while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }

  void fail(const std::string& what, std::size_t depth) {
    outcome_.failed = true;
    outcome_.what = what;
    for (std::size_t i = 0; i < depth && i < path_.size(); ++i)
      outcome_.schedule += kDigits[path_[i].taken];
  }

  const Limits limits_;
  Scenario& scenario_;
  Machine machine_;
  std::vector<Choice> path_;
  std::vector<Step> enabled_;
  std::unordered_set<std::uint64_t> seen_;
  std::string* trace_ = nullptr;
  int running_ = 0;  // the actor that ran last
  int delays_ = 0;   // choices other than the first
  Outcome outcome_;
};

}  // namespace

Outcome explore(Scenario& scenario, Model model, const Mutant& mutant, const Limits& limits) {
  return Search(scenario, model, mutant, limits).run();
}

Outcome replay(Scenario& scenario, Model model, const Mutant& mutant, const Limits& limits,
               const std::string& schedule, std::string* trace) {
  return Search(scenario, model, mutant, limits).run_one(schedule, trace);
}

}  // namespace rondo::explorer
