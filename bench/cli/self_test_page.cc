// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "bench/standard_output.h"

namespace rondo::cli {
namespace {

using bench::CheckedWay;
using bench::LinkRate;
using bench::SelfTestResult;
using bench::WrongData;

constexpr std::size_t kMatrixRanks = 12;

std::string matrix_of(const SelfTestResult& result) {
  const std::size_t n = result.ranks.size();
  if (n > kMatrixRanks || result.links.empty()) return "";
  std::vector<std::string> cells(n * n, "-");
  for (const LinkRate& link : result.links) {
    const auto from = static_cast<std::size_t>(link.from), to = static_cast<std::size_t>(link.to);
    cells[from * n + to] = cells[to * n + from] = fmt::format("{:.3g}", link.gbs);
  }
  std::string text = "\nGB/s, rank by rank\n      ";
  for (std::size_t to = 0; to < n; ++to) text += fmt::format("{:>7}", to);
  for (std::size_t from = 0; from < n; ++from) {
    text += fmt::format("\n{:>6}", from);
    for (std::size_t to = 0; to < n; ++to) text += fmt::format("{:>7}", cells[from * n + to]);
  }
  return text + "\n";
}

std::string algorithms_of(const SelfTestResult& result) {
  std::map<std::string, std::pair<std::uint64_t, std::vector<std::string>>> by_algorithm;
  for (const CheckedWay& way : result.ways) {
    auto& [calls, collectives] = by_algorithm[way.algorithm];
    calls += way.calls;
    collectives.push_back(way.collective);
  }
  std::string text = "\nalgorithm      calls  collectives\n";
  for (const auto& [algorithm, row] : by_algorithm) {
    const std::string collectives = row.second.size() > 5
                                        ? fmt::format("all {}", row.second.size())
                                        : fmt::format("{}", fmt::join(row.second, ", "));
    text += fmt::format("{:<12} {:>7}  {}\n", algorithm, row.first, collectives);
  }
  return text;
}

std::string hosts_of(const SelfTestResult& result) {
  std::vector<std::pair<std::string, std::vector<int>>> hosts;
  for (const bench::Rank& rank : result.ranks) {
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const auto& host) { return host.first == rank.host; });
    auto& host = known == hosts.end() ? hosts.emplace_back(rank.host, std::vector<int>{}) : *known;
    host.second.push_back(rank.rank);
  }
  std::string text =
      fmt::format("Self-test: {}, {}, {:.1f} s\n", counted(result.ranks.size(), "rank"),
                  counted(hosts.size(), "host"), result.seconds);
  for (const auto& [host, ranks] : hosts)
    text += fmt::format("  {}: ranks {} to {}, {}\n", host, ranks.front(), ranks.back(),
                        result.ranks[static_cast<std::size_t>(ranks.front())].device);
  return text + "\n";
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kProblem:
      break;
  }
  return "problem";
}

std::string line_of(const Finding& finding, bool colours) {
  constexpr Colour kColours[] = {Colour::kGreen, Colour::kYellow, Colour::kRed};  // by verdict
  const std::string verdict = fmt::format("{:<8}", name_of(finding.verdict));
  std::string text = fmt::format(
      "{} {:<20} {}\n", coloured(verdict, kColours[static_cast<int>(finding.verdict)], colours),
      finding.subject, finding.text);
  if (!finding.remedy.empty()) text += fmt::format("{:<29} -> {}\n", "", finding.remedy);
  return text;
}

std::string page_of(const SelfTestResult& result, const std::vector<Finding>& findings,
                    bool colours) {
  std::string text = result.ranks.empty() ? "" : hosts_of(result);
  for (const Finding& finding : findings) text += line_of(finding, colours);
  return text + algorithms_of(result) + matrix_of(result);
}

std::string json_of(const SelfTestResult& result, const std::vector<Finding>& findings) {
  Json found = Json::array(), ranks = Json::array(), ways = Json::array(), wrong = Json::array(),
       links = Json::array();
  int problems = 0, warnings = 0;
  for (const Finding& finding : findings) {
    problems += finding.verdict == Verdict::kProblem;
    warnings += finding.verdict == Verdict::kWarning;
    found.push_back({{"verdict", name_of(finding.verdict)},
                     {"subject", finding.subject},
                     {"found", finding.text},
                     {"remedy", finding.remedy}});
  }
  for (const bench::Rank& rank : result.ranks)
    ranks.push_back({{"rank", rank.rank}, {"host", rank.host}, {"device", rank.device}});
  const auto or_null = [](double value) { return value > 0 ? Json(value) : Json(); };
  for (const CheckedWay& way : result.ways)
    ways.push_back({{"collective", way.collective},
                    {"algorithm", way.algorithm},
                    {"calls", way.calls},
                    {"wrong_elements", way.wrong},
                    {"size_bytes", way.bytes},
                    {"time_us", or_null(way.time_us)},
                    {"predicted_us", or_null(way.predicted_us)}});
  for (const WrongData& one : result.wrong)
    wrong.push_back({{"rank", one.rank},
                     {"collective", one.collective},
                     {"algorithm", one.algorithm},
                     {"type", one.type},
                     {"redop", one.op},
                     {"size_bytes", one.bytes},
                     {"in_place", one.in_place},
                     {"wrong_elements", one.wrong},
                     {"first", one.example},
                     {"round", one.round}});
  for (const LinkRate& link : result.links)
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"across_hosts", link.across},
                     {"rate_gbs", link.gbs},
                     {"promised_gbs", or_null(link.promised_gbs)},
                     {"promised_by", link.by_ports ? "ports" : "model"},
                     {"wrong_elements", link.wrong}});
  const Json document{{"schema", "rondo-self-test"},   {"version", 1},
                      {"seconds", result.seconds},     {"rounds", result.rounds},
                      {"problems", problems},          {"warnings", warnings},
                      {"findings", std::move(found)},  {"ranks", std::move(ranks)},
                      {"algorithms", std::move(ways)}, {"wrong_results", std::move(wrong)},
                      {"links", std::move(links)}};
  return document.text(2) + "\n";
}

}  // namespace rondo::cli
