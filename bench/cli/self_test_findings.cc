// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/printable.h"

namespace rondo::cli {
namespace {

using bench::CheckedWay;
using bench::LinkRate;
using bench::SelfTestResult;
using bench::WrongData;

constexpr double kSlowOfOthers = 0.5, kBusySlow = 0.2;
constexpr std::size_t kLinksToCompare = 3;
constexpr double kSlowOfPromise = 0.25, kLowOfPorts = 0.5;

constexpr const char* kCorrupts =
    "its memory, processor or adapters corrupt data: take the host out of service and test it "
    "alone "
    "(rondo doctor --self-test there, memtester; dcgmi diag -r 3 for GPUs)";

const std::string& host_of(const SelfTestResult& result, int rank) {
  return result.ranks[static_cast<std::size_t>(rank)].host;
}

std::string rank_text(const SelfTestResult& result, int rank) {
  return fmt::format("rank {} (host {})", rank, host_of(result, rank));
}

std::string link_text(const LinkRate& link) {
  return fmt::format("link {} - {}", link.from, link.to);
}

std::vector<double> rates_of(const SelfTestResult& result, bool across) {
  std::vector<double> rates;
  for (const LinkRate& link : result.links)
    if (link.across == across) rates.push_back(link.gbs);
  std::sort(rates.begin(), rates.end());
  return rates;
}

double median_of(const std::vector<double>& sorted) {
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

// A quarter of the links has this rate or more. One bad host of three makes two links of three
// slow, so their median says nothing.
double upper_quarter(const std::vector<double>& sorted) {
  return sorted.empty() ? 0 : sorted[sorted.size() * 3 / 4];
}

// Ranks share cores with each other or with other programs, so rates within hosts say little.
bool is_busy(const SelfTestResult& result) {
  for (const std::string& text : result.of_ranks)
    for (const Finding& finding : unpacked(text))
      if (finding.subject == "load" || finding.subject == "ranks") return true;
  return false;
}

// ---- wrong data ----

using LinkPredicate = std::function<bool(const LinkRate&)>;

// Ranks with two links of a kind or more, of which all are bad, while not all others are.
std::vector<int> ranks_to_blame(const SelfTestResult& result, bool across,
                                const LinkPredicate& is_bad) {
  std::vector<int> ranks;
  for (const bench::Rank& rank : result.ranks) {
    int own = 0, own_bad = 0, others = 0, others_bad = 0;
    for (const LinkRate& link : result.links) {
      if (link.across != across) continue;
      const bool is_own = link.from == rank.rank || link.to == rank.rank;
      ++(is_own ? own : others);
      if (is_bad(link)) ++(is_own ? own_bad : others_bad);
    }
    if (own >= 2 && own_bad == own && others_bad < others) ranks.push_back(rank.rank);
  }
  return ranks;
}

bool is_link_of(const LinkRate& link, const std::vector<int>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return link.from == rank || link.to == rank; });
}

const char* kind_text(bool across) { return across ? "to other hosts" : "in its host"; }

// Ranks pass data on, so wrong results appear on others too. Links come first: they show the cause.
void check_link_data(const SelfTestResult& result, bool across, std::vector<Finding>& findings) {
  const auto is_wrong = [](const LinkRate& link) { return link.wrong > 0; };
  const std::vector<int> blamed = ranks_to_blame(result, across, is_wrong);
  for (const int rank : blamed) {
    std::uint64_t wrong = 0;
    std::string example;
    int links = 0;
    for (const LinkRate& link : result.links) {
      if (link.across != across || !is_link_of(link, {rank})) continue;
      ++links, wrong += link.wrong;
      if (example.empty()) example = link.example;
    }
    findings.push_back({Verdict::kProblem, fmt::format("links of rank {}", rank),
                        fmt::format("messages on all {} links of {} {} arrived with {}: {}", links,
                                    rank_text(result, rank), kind_text(across),
                                    counted(wrong, "wrong element"), example),
                        kCorrupts});
  }
  for (const LinkRate& link : result.links)
    if (link.across == across && link.wrong > 0 && !is_link_of(link, blamed))
      findings.push_back(
          {Verdict::kProblem, link_text(link),
           fmt::format("messages between {} and {} arrived with {}: {}",
                       rank_text(result, link.from), rank_text(result, link.to),
                       counted(link.wrong, "wrong element"), link.example),
           across ? "an adapter, a cable or a switch between these hosts corrupts data: test each "
                    "host with another partner, then replace what is left"
                  : kCorrupts});
}

void check_data(const SelfTestResult& result, std::vector<Finding>& findings) {
  for (const bool across : {false, true}) check_link_data(result, across, findings);
  std::map<int, std::vector<const WrongData*>> by_rank;
  for (const WrongData& wrong : result.wrong) by_rank[wrong.rank].push_back(&wrong);
  for (const auto& [rank, all] : by_rank) {
    const WrongData& first = *all.front();
    std::set<std::string> algorithms;
    for (const WrongData* one : all) algorithms.insert(one->algorithm);
    findings.push_back(
        {Verdict::kProblem, fmt::format("data of rank {}", rank),
         fmt::format(
             "{} got wrong results in {}, by the algorithms {}; the first{}: {} by "
             "{}, {}{}{}, {} bytes{}: {}: {}",
             rank_text(result, rank), counted(all.size(), "test"), fmt::join(algorithms, ", "),
             result.rounds > 1 ? fmt::format(", in round {} of {}", first.round, result.rounds)
                               : "",
             first.collective, first.algorithm, first.type, first.op == "none" ? "" : " ",
             first.op == "none" ? "" : first.op, first.bytes, first.in_place ? " in place" : "",
             counted(first.wrong, "wrong element"), first.example),
         findings.empty() ? kCorrupts
                          : "ranks pass data on: fix what is named above, then repeat the test"});
  }
}

// ---- slow links ----

struct SlowPair {
  const LinkRate* link;
  Verdict verdict;
  std::string why;
  bool of_others = false;  // slower than other links of its kind; else slower than promised
};

std::vector<SlowPair> slow_pairs(const SelfTestResult& result) {
  const std::vector<double> in_hosts = rates_of(result, false), across = rates_of(result, true);
  const bool busy = is_busy(result);
  std::vector<SlowPair> slow;
  for (const LinkRate& link : result.links) {
    const std::vector<double>& rates = link.across ? across : in_hosts;
    const double good = upper_quarter(rates), promised = link.promised_gbs;
    const std::string promise =
        promised == 0 ? ""
                      : fmt::format("{} {:.3g} GB/s",
                                    link.by_ports ? "the ports' rate is" : "the cost model expects",
                                    promised);
    if (rates.size() >= kLinksToCompare && link.gbs < kSlowOfOthers * good)
      slow.push_back({&link,
                      busy && (!link.across || link.gbs > kBusySlow * good) ? Verdict::kWarning
                                                                            : Verdict::kProblem,
                      fmt::format("a quarter of the {} such links has {:.3g} GB/s or more{}{}",
                                  rates.size(), good, promise.empty() ? "" : ", ", promise),
                      true});
    else if (link.by_ports && link.gbs < kLowOfPorts * promised)
      slow.push_back({&link,
                      link.gbs < kSlowOfPromise * promised ? Verdict::kProblem : Verdict::kWarning,
                      promise});
    else if (!link.by_ports && link.gbs < kSlowOfPromise * promised)
      slow.push_back({&link, Verdict::kWarning, promise});
  }
  return slow;
}

const char* remedy_of(bool across) {
  return across ? "look for errors and the negotiated rate of both hosts' ports (ethtool, ibstat), "
                  "and "
                  "at the cable and the switch port; NCCL_SOCKET_IFNAME or NCCL_IB_HCA choose ports"
                : "other programs on these cores, or memory far from them: rondo run --bind cores, "
                  "rondo topo, rondo doctor on that host";
}

// The slow links of a kind that no finding names yet: each, or all at once if every one is slow.
void name_links(const SelfTestResult& result, const std::vector<SlowPair>& slow,
                const std::set<const LinkRate*>& named, bool across,
                std::vector<Finding>& findings) {
  std::vector<const SlowPair*> left;
  for (const SlowPair& one : slow)
    if (one.link->across == across && !named.contains(one.link)) left.push_back(&one);
  const std::size_t unnamed = rates_of(result, across).size() - named.size();
  if (left.size() > 1 && left.size() == unnamed) {
    const auto [slowest, fastest] = std::minmax_element(
        left.begin(), left.end(),
        [](const SlowPair* a, const SlowPair* b) { return a->link->gbs < b->link->gbs; });
    findings.push_back({left[0]->verdict, across ? "links across hosts" : "links in hosts",
                        fmt::format("all {}{} links are slow: {:.3g} to {:.3g} GB/s; {}", unnamed,
                                    named.empty() ? "" : " other", (*slowest)->link->gbs,
                                    (*fastest)->link->gbs, left[0]->why),
                        remedy_of(across)});
    return;
  }
  for (const SlowPair* one : left)
    findings.push_back({one->verdict, link_text(*one->link),
                        fmt::format("{:.3g} GB/s between {} and {}; {}", one->link->gbs,
                                    rank_text(result, one->link->from),
                                    rank_text(result, one->link->to), one->why),
                        remedy_of(across)});
}

// All links of one rank are in `slow`, at least two of them: the rank is to blame, not each link.
void blame_ranks(const SelfTestResult& result, const std::vector<SlowPair>& slow, bool across,
                 std::set<const LinkRate*>& named, std::vector<Finding>& findings) {
  const auto is_slow = [&](const LinkRate& link) {
    return std::any_of(slow.begin(), slow.end(),
                       [&](const SlowPair& one) { return one.link == &link; });
  };
  for (const int rank : ranks_to_blame(result, across, is_slow)) {
    double best = 0;
    const SlowPair* first = nullptr;
    std::size_t links = 0;
    for (const SlowPair& one : slow) {
      if (one.link->across != across || !is_link_of(*one.link, {rank})) continue;
      named.insert(one.link);
      best = std::max(best, one.link->gbs);
      if (links++ == 0) first = &one;
    }
    findings.push_back(
        {first->verdict, fmt::format("links of rank {}", rank),
         fmt::format("all {} links of {} {} are slow, at most {:.3g} GB/s; {}", links,
                     rank_text(result, rank), kind_text(across), best, first->why),
         remedy_of(across)});
  }
}

// On a busy machine every link may be slower than promised. The rank whose links are slower than
// those of all others is named nevertheless.
void check_links(const SelfTestResult& result, std::vector<Finding>& findings) {
  const std::vector<SlowPair> slow = slow_pairs(result);
  std::vector<SlowPair> of_others;
  std::copy_if(slow.begin(), slow.end(), std::back_inserter(of_others),
               [](const SlowPair& one) { return one.of_others; });
  for (const bool across : {false, true}) {
    std::set<const LinkRate*> named;
    blame_ranks(result, of_others, across, named, findings);
    if (named.empty()) blame_ranks(result, slow, across, named, findings);
    name_links(result, slow, named, across, findings);
  }
}

std::string summary_of_links(const SelfTestResult& result, bool across) {
  const std::vector<double> rates = rates_of(result, across);
  if (rates.empty()) return "";
  double promised = 0;
  bool by_ports = false;
  for (const LinkRate& link : result.links)
    if (link.across == across) promised = link.promised_gbs, by_ports = link.by_ports;
  return fmt::format(
      "{}: {:.3g} to {:.3g} GB/s each way at once, median {:.3g}{}", rates.size(), rates.front(),
      rates.back(), median_of(rates),
      promised == 0 ? "" : fmt::format("; {} {:.3g}", by_ports ? "ports" : "cost model", promised));
}

Finding fine(std::string subject, std::string text) {
  return {Verdict::kOk, std::move(subject), std::move(text), ""};
}

}  // namespace

std::vector<Finding> findings_of(const SelfTestResult& result) {
  std::vector<Finding> findings;
  for (const std::string& error : result.errors)
    findings.push_back({Verdict::kProblem, "calls", error,
                        "the test ended here; docs/operate/troubleshooting.md explains errors, "
                        "NCCL_DEBUG=INFO shows more"});
  check_data(result, findings);
  const bool data_is_right = findings.size() == result.errors.size();
  check_links(result, findings);
  for (const std::string& text : result.of_ranks)
    for (Finding& finding : unpacked(text)) findings.push_back(std::move(finding));
  std::uint64_t calls = 0;
  std::set<std::string> collectives;
  for (const CheckedWay& way : result.ways) calls += way.calls, collectives.insert(way.collective);
  if (data_is_right && calls > 0)
    findings.push_back(
        fine("data", fmt::format("{} of {}, every result is right", counted(calls, "call"),
                                 counted(collectives.size(), "collective"))));
  for (const bool across : {false, true})
    if (const std::string text = summary_of_links(result, across); !text.empty())
      findings.push_back(fine(across ? "links across hosts" : "links in hosts", text));
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& one, const Finding& other) {
    return one.verdict > other.verdict;
  });
  return findings;
}

std::string packed(const std::vector<Finding>& findings) {
  ByteWriter writer;
  for (const Finding& finding : findings) {
    writer.put(finding.verdict);
    writer.put_string(finding.subject);
    writer.put_string(finding.text);
    writer.put_string(finding.remedy);
  }
  const std::vector<std::byte> bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<Finding> unpacked(const std::string& text) {
  ByteReader reader(std::as_bytes(std::span(text)));
  std::vector<Finding> findings;
  while (reader.ok() && reader.left() > 0) {
    Finding finding;
    finding.verdict = reader.get<Verdict>();
    finding.subject = reader.get_string();
    finding.text = reader.get_string();
    finding.remedy = reader.get_string();
    if (!reader.ok() || finding.verdict > Verdict::kProblem) return {};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace rondo::cli
