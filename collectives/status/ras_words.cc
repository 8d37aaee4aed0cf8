// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/ras_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/printable.h"
#include "collectives/status/gather.h"
#include "collectives/status/monitor.h"

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

class Words {
 public:
  explicit Words(const StatusSources& sources) : ranks_(sources.ranks), folder_(sources.folder) {
    facts_.version = version_text(env::get_int("RONDO_VERSION_CODE"));
  }

  std::unique_ptr<Gather> gather(Gather::Scope scope, double timeout_seconds,
                                 Gather::Write write) const;
  Reply set_timeout(Conversation& conversation, std::string_view value) const;
  Reply set_format(Conversation& conversation, std::string_view value) const;
  Reply report(const Conversation& conversation, bool verbose) const;
  Reply monitor(const Conversation& conversation, std::string_view groups) const;
  Reply view(const Conversation& conversation, std::string_view scope) const;
  Reply diagnostics(const Conversation& conversation) const;

 private:
  const OwnRanks& ranks_;
  const std::optional<status::UserFolder>& folder_;
  RasFacts facts_;
};

std::unique_ptr<Gather> Words::gather(Gather::Scope scope, double timeout_seconds,
                                      Gather::Write write) const {
  return std::make_unique<Gather>(ranks_, folder_ ? &*folder_ : nullptr, scope, timeout_seconds,
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
  return {"", false, gather(Gather::kJob, conversation.timeout_seconds, write)};
}

Reply Words::monitor(const Conversation& conversation, std::string_view groups) const {
  std::string unknown;
  const MonitorGroups wanted = MonitorGroups::parse(groups, &unknown);
  if (!unknown.empty()) return {fmt::format("ERROR: Invalid event group '{}'\n", unknown)};
  const auto start = [this, seconds = conversation.timeout_seconds](Gather::Write write) {
    return gather(Gather::kJob, seconds, std::move(write));
  };
  return {"OK\n", false, std::make_unique<Monitor>(wanted, conversation.json, start)};
}

Reply Words::view(const Conversation& conversation, std::string_view scope) const {
  constexpr std::string_view kScopes[] = {"OWN", "HOST", "JOB"};
  const auto write = [](const JobView& view) { return view.to_json().text(-1) + '\n'; };
  for (int i = 0; i < 3; ++i)
    if (equals_ignoring_case(scope, kScopes[i]))
      return {"", false,
              gather(static_cast<Gather::Scope>(i), conversation.timeout_seconds, write)};
  return {fmt::format("ERROR: VIEW OWN, HOST or JOB, not {}\n", printable(scope))};
}

Reply Words::diagnostics(const Conversation& conversation) const {
  if (conversation.json) return {"ERROR: diagnostics only supports text output\n"};
  return {"", false, gather(Gather::kJob, conversation.timeout_seconds, ras_diagnostics)};
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
      {"VIEW", [words](Conversation& client,
                       std::string_view scope) { return words->view(client, scope); }},
  };
}

}  // namespace rondo
