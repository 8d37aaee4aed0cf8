// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/ras_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/printable.h"
#include "collectives/profiler/profiler_plugin.h"
#include "collectives/status/gather.h"
#include "collectives/status/monitor.h"
#include "topology/small_file.h"

namespace rondo {
namespace {

using status::Conversation;
using status::Reply;
using status::Word;

std::string version_text(std::int64_t code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

bool equals_ignoring_case(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return (a | 0x20) == (b | 0x20); });
}

std::optional<Gather::Scope> scope_of(std::string_view word) {
  constexpr std::string_view kScopes[] = {"OWN", "HOST", "JOB"};
  for (int i = 0; i < 3; ++i)
    if (equals_ignoring_case(word, kScopes[i])) return static_cast<Gather::Scope>(i);
  return std::nullopt;
}

std::string json_text(const JobView& view) { return view.to_json().text(-1) + '\n'; }

// "all", "none", a number (decimal, 0x..., octal), or names of events joined by commas.
std::optional<int> profiler_mask_of(std::string_view text) {
  constexpr int kAll = (1 << std::size(profiler::abi::kKindNames)) - 1;
  if (equals_ignoring_case(text, "all")) return kAll;
  if (equals_ignoring_case(text, "none")) return 0;
  if (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    const int base = hex ? 16 : text[0] == '0' ? 8 : 10;
    if (hex) text.remove_prefix(2);
    int mask = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), mask, base);
    const bool is_whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    return is_whole ? std::optional(mask) : std::nullopt;
  }
  int mask = 0;
  for (bool first = true; first || !text.empty(); first = false) {
    const std::string_view word = topology::take_until(text, ',');
    const auto* const known =
        std::find_if(std::begin(profiler::abi::kKindNames), std::end(profiler::abi::kKindNames),
                     [&](std::string_view name) { return equals_ignoring_case(word, name); });
    if (known == std::end(profiler::abi::kKindNames)) return std::nullopt;
    mask |= 1 << (known - std::begin(profiler::abi::kKindNames));
  }
  return mask;
}

Gather::Query mask_query(Gather::Scope scope, const Conversation& conversation, int mask) {
  return {scope, conversation.timeout_seconds, "MASK", fmt::format(" {}", mask)};
}

Reply refusal(const Conversation& conversation) {
  return {fmt::format("ERROR: refused: {}\n", conversation.may_not_control)};
}

// OK, if every process of the job has answered. One of this host that does not answer is silent
// although its ranks are read from shared memory.
std::string unreached_text(const JobView& view) {
  std::set<std::string> missing(view.silent.begin(), view.silent.end());
  for (const CommunicatorView& communicator : view.communicators)
    for (const RankView& rank : communicator.ranks)
      if (rank.state == "silent" || rank.state == "stopped")
        missing.insert(fmt::format("process {} on {}", rank.pid, rank.host));
  if (missing.empty()) return "OK\n";
  return fmt::format("ERROR: not set in {} that did not answer\n", fmt::join(missing, ", "));
}

class Words {
 public:
  explicit Words(const StatusSources& sources) : ranks_(sources.ranks), folder_(sources.folder) {
    facts_.version = version_text(env::get_int("RONDO_VERSION_CODE"));
  }

  std::unique_ptr<Gather> gather(Gather::Query query, Gather::Write write) const;
  Reply set_timeout(Conversation& conversation, std::string_view value) const;
  Reply set_format(Conversation& conversation, std::string_view value) const;
  Reply report(const Conversation& conversation, bool verbose) const;
  Reply monitor(const Conversation& conversation, std::string_view groups) const;
  Reply view(const Conversation& conversation, std::string_view scope) const;
  Reply mask(const Conversation& conversation, std::string_view argument) const;
  Reply control(const Conversation& conversation, std::string_view argument) const;
  Reply diagnostics(const Conversation& conversation) const;
  Reply meet(const Conversation& conversation, std::string_view request) const;

 private:
  const OwnRanks& ranks_;
  const std::optional<status::UserFolder>& folder_;
  RasFacts facts_;
};

std::unique_ptr<Gather> Words::gather(Gather::Query query, Gather::Write write) const {
  return std::make_unique<Gather>(ranks_, folder_ ? &*folder_ : nullptr, std::move(query),
                                  std::move(write));
}

Reply Words::set_timeout(Conversation& conversation, std::string_view value) const {
  double seconds = -1;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, seconds);
  if (read.ec != std::errc() || read.ptr != end || !(seconds >= 0) || std::isinf(seconds))
    return {fmt::format("ERROR: Invalid timeout value {}\n", printable(value))};
  conversation.timeout_seconds = seconds;
  return {"OK\n"};
}

Reply Words::set_format(Conversation& conversation, std::string_view value) const {
  const bool json = equals_ignoring_case(value, "json");
  if (!json && !equals_ignoring_case(value, "text"))
    return {fmt::format("ERROR: Invalid format {}\n", printable(value))};
  conversation.json = json;
  return {"OK\n"};
}

Reply Words::report(const Conversation& conversation, bool verbose) const {
  const bool json = conversation.json;
  const auto write = [facts = facts_, json, verbose](const JobView& view) {
    return json ? ras_json(view, facts) : ras_text(view, facts, verbose);
  };
  return {"", false, gather({Gather::kJob, conversation.timeout_seconds}, write)};
}

Reply Words::monitor(const Conversation& conversation, std::string_view groups) const {
  std::string unknown;
  const MonitorGroups wanted = MonitorGroups::parse(groups, &unknown);
  if (!unknown.empty()) return {fmt::format("ERROR: Invalid event group '{}'\n", unknown)};
  const auto start = [this, seconds = conversation.timeout_seconds](Gather::Write write) {
    return gather({Gather::kJob, seconds}, std::move(write));
  };
  return {"OK\n", false, std::make_unique<Monitor>(wanted, conversation.json, start)};
}

Reply Words::view(const Conversation& conversation, std::string_view scope) const {
  const auto asked = scope_of(scope);
  if (!asked) return {fmt::format("ERROR: VIEW OWN, HOST or JOB, not {}\n", printable(scope))};
  return {"", false, gather({*asked, conversation.timeout_seconds}, json_text)};
}

// What CONTROL PROFILER_MASK asks other processes; the answer is that of VIEW.
Reply Words::mask(const Conversation& conversation, std::string_view argument) const {
  if (!conversation.may_not_control.empty()) return refusal(conversation);
  const std::string_view scope = topology::take_until(argument, ' ');
  const auto asked = scope_of(scope);
  const auto mask = profiler_mask_of(argument);
  if (!asked || !mask) return {"ERROR: MASK OWN, HOST or JOB, and a number\n"};
  profiler::ProfilerPlugin::set_masks(*mask);
  return {"", false, gather(mask_query(*asked, conversation, *mask), json_text)};
}

Reply Words::control(const Conversation& conversation, std::string_view argument) const {
  if (!conversation.may_not_control.empty()) return refusal(conversation);
  const std::string_view what = topology::take_until(argument, ' ');
  if (!equals_ignoring_case(what, "PROFILER_MASK"))
    return {fmt::format("ERROR: Unknown CONTROL subcommand '{}'\n", printable(what))};
  const auto mask = profiler_mask_of(argument);
  if (!mask) return {fmt::format("ERROR: Invalid profiler mask value '{}'\n", printable(argument))};
  profiler::ProfilerPlugin::set_masks(*mask);
  return {"", false, gather(mask_query(Gather::kJob, conversation, *mask), unreached_text)};
}

Reply Words::diagnostics(const Conversation& conversation) const {
  if (conversation.json) return {"ERROR: diagnostics only supports text output\n"};
  return {"", false, gather({Gather::kJob, conversation.timeout_seconds}, ras_diagnostics)};
}

// Of a watched process of another host (collectives/watch/host_meeting.h).
Reply Words::meet(const Conversation& conversation, std::string_view request) const {
  if (!conversation.may_not_control.empty()) return refusal(conversation);
  WatchedRanks* const watched = ranks_.watched();
  if (watched == nullptr) return {"ERROR: nothing is watched here\n", true};
  return {watched->meet(request), true};
}

}  // namespace

// A longer word stands before one that it begins with.
std::vector<Word> status_words(const StatusSources& sources) {
  const auto words = std::make_shared<const Words>(sources);
  return {
      {"CLIENT PROTOCOL",
       [](Conversation&, std::string_view) { return Reply{"SERVER PROTOCOL 2\n"}; }},
      {"TIMEOUT", [words](Conversation& client,
                          std::string_view value) { return words->set_timeout(client, value); }},
      {"SET FORMAT", [words](Conversation& client,
                             std::string_view value) { return words->set_format(client, value); }},
      {"VERBOSE STATUS",
       [words](Conversation& client, std::string_view) { return words->report(client, true); }},
      {"STATUS",
       [words](Conversation& client, std::string_view) { return words->report(client, false); }},
      {"MONITOR", [words](Conversation& client,
                          std::string_view groups) { return words->monitor(client, groups); }},
      {"DIAGNOSTICS",
       [words](Conversation& client, std::string_view) { return words->diagnostics(client); }},
      {"CONTROL", [words](Conversation& client,
                          std::string_view what) { return words->control(client, what); }},
      {"MASK",
       [words](Conversation& client, std::string_view mask) { return words->mask(client, mask); }},
      {"MEET", [words](Conversation& client,
                       std::string_view request) { return words->meet(client, request); }},
      {"VIEW", [words](Conversation& client,
                       std::string_view scope) { return words->view(client, scope); }},
  };
}

}  // namespace rondo
