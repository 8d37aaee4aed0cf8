// SPDX-License-Identifier: Apache-2.0
#include "collectives/tuner/ask_tuner.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "collectives/planner/device_strategies.h"
#include "collectives/planner/explain.h"

namespace rondo::tuner {
namespace {

using gpu::DevicePlanFacts;
using gpu::TunedWay;
using gpu::TunedWays;

constexpr const char* kAlgorithmNames[abi::kAlgorithms] = {
    "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
constexpr const char* kProtocolNames[abi::kProtocols] = {"LL", "LL128", "Simple"};

struct Cell {
  int algorithm = abi::kUndecided, protocol = 0;
  bool found() const { return algorithm >= 0; }
  friend bool operator==(const Cell&, const Cell&) = default;
};

Cell cell_of(const gpu::DevicePlan& plan) {
  const int protocol = plan.protocol == cuda::Protocol::kLL      ? abi::kLL
                       : plan.protocol == cuda::Protocol::kLL128 ? abi::kLL128
                                                                 : abi::kSimple;
  return {plan.algorithm == Algorithm::kTree ? abi::kTree : abi::kRing, protocol};
}

TunedWay way_of(const Cell& cell) {
  constexpr cuda::Protocol kOwn[] = {cuda::Protocol::kLL, cuda::Protocol::kLL128,
                                     cuda::Protocol::kSimple};
  return {true, cell.algorithm == abi::kTree ? Algorithm::kTree : Algorithm::kRing,
          kOwn[cell.protocol]};
}

void fill(abi::Costs& costs, const DevicePlanFacts& facts, const CallRecord& record) {
  for (auto& row : costs) std::fill(std::begin(row), std::end(row), abi::kIgnored);
  for (const gpu::DeviceStrategyRow& row : gpu::device_strategies()) {
    if (row.traits.tuning != gpu::Tuning::kOffered || !row.supports(facts, record)) continue;
    const auto made = candidate_of(row, facts, record);
    const Cell cell = cell_of(made.plan);
    costs[cell.algorithm][cell.protocol] = static_cast<float>(made.cost / 1000);
  }
}

bool same(const abi::Costs& a, const abi::Costs& b) {
  return std::equal(std::begin(a), std::end(a), std::begin(b), [](const auto& row, const auto& of) {
    return std::equal(std::begin(row), std::end(row), std::begin(of));
  });
}

// The cheapest cell that `may` accepts; the first one of equals.
template <class May>
Cell cheapest(const abi::Costs& costs, const May& may) {
  Cell best;
  for (int a = 0; a < abi::kAlgorithms; ++a)
    for (int p = 0; p < abi::kProtocols; ++p) {
      if (!(costs[a][p] >= 0) || !may(a, p)) continue;
      if (!best.found() || costs[a][p] < costs[best.algorithm][best.protocol]) best = {a, p};
    }
  return best;
}

// Counts unusable answers and keeps a message about the first one.
class Complaints {
 public:
  template <class... Words>
  void add(Collective which, int size, fmt::format_string<Words...> format, Words&&... words) {
    if (count_++ > 0) return;
    first_ = fmt::format("for {} of {} {}", name(which), bytes_text(TunedWays::bytes_at(size)),
                         fmt::format(format, std::forward<Words>(words)...));
  }
  std::string text(const TunerPlugin& plugin) const {
    if (count_ == 0) return {};
    const std::string more = count_ == 1 ? "" : fmt::format(", and {} more", count_ - 1);
    return fmt::format("{}: {}{}; NCCL_DEBUG=INFO logs what runs instead", plugin.text(), first_,
                       more);
  }

 private:
  int count_ = 0;
  std::string first_;
};

class Grid {
 public:
  Grid(const Tuner& tuner, const DevicePlanFacts& facts) : tuner_(tuner), facts_(facts) {}

  Asked run() {
    Asked asked;
    for (int c = 0; c < kListedFunctions; ++c)
      for (int size = 0; size < TunedWays::kSizes; ++size) {
        const auto which = static_cast<Collective>(c + 1);
        asked.ways.at(which, size) = ask(which, size);
      }
    asked.complaint = complaints_.text(tuner_.plugin());
    return asked;
  }

 private:
  TunedWay ask(Collective which, int size) {
    const CallRecord record = TunedWays::record_at(which, size, facts_.ranks);
    const auto own = choose(gpu::device_strategies(), facts_, record);
    if (own.row == nullptr || own.row->traits.tuning == gpu::Tuning::kFixed) return {};
    abi::Costs given;
    fill(given, facts_, record);
    const auto runs = [&](int a, int p) { return given[a][p] >= 0; };
    if (!cheapest(given, runs).found()) return {};
    abi::Costs costs;
    std::memcpy(costs, given, sizeof(costs));
    const Answer answer = tuner_.ask(which, TunedWays::bytes_at(size), costs);
    if (answer.result != 0) {
      complaints_.add(which, size, "{}", tuner_.failure_to_answer(answer.result).text);
      return {};
    }
    TunedWay way = same(costs, given) ? TunedWay{} : chosen(which, size, given, costs, *own.row);
    // A number of at least max_channels limits nothing.
    if (answer.channels > 0 && answer.channels < facts_.max_channels)
      way.max_channels = static_cast<std::uint8_t>(answer.channels);
    return way;
  }

  TunedWay chosen(Collective which, int size, const abi::Costs& given, const abi::Costs& costs,
                  const gpu::DeviceStrategyRow& own) {
    const auto runs = [&](int a, int p) { return given[a][p] >= 0; };
    const Cell wanted = cheapest(costs, [](int, int) { return true; });
    const Cell best = cheapest(costs, runs);
    if (!wanted.found() || !best.found()) {
      complaints_.add(which, size, "it leaves nothing that can run here");
      return {};
    }
    if (!runs(wanted.algorithm, wanted.protocol))
      complaints_.add(which, size, "it names {} by {}, which cannot run here",
                      kAlgorithmNames[wanted.algorithm], kProtocolNames[wanted.protocol]);
    const bool is_set =
        costs[best.algorithm][best.protocol] != given[best.algorithm][best.protocol];
    const bool is_left =
        own.traits.tuning == gpu::Tuning::kOffered && !(best == cheapest(given, runs));
    return is_set || is_left ? way_of(best) : TunedWay{};
  }

  const Tuner& tuner_;
  const DevicePlanFacts& facts_;
  Complaints complaints_;
};

}  // namespace

Asked ask_tuner(const Tuner& tuner, const DevicePlanFacts& facts) {
  return Grid(tuner, facts).run();
}

}  // namespace rondo::tuner
