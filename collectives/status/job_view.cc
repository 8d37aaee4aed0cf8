// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/job_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/printable.h"

namespace rondo {
namespace {

constexpr int kMaxSize = 1 << 20;

// Numbers of another process, in range; JsonError otherwise.
template <class Number>
Number number_of(const Json& from, std::string_view key) {
  constexpr double kHigh = 9e18;  // below 2^63
  const double value = from.at(key).number();
  if (!(value >= std::max(-kHigh, static_cast<double>(std::numeric_limits<Number>::lowest())) &&
        value <= std::min(kHigh, static_cast<double>(std::numeric_limits<Number>::max()))))
    throw JsonError(fmt::format("'{}' is out of range", key));
  return static_cast<Number>(value);
}

// Hashes have 64 bits, more than a number of JSON keeps in every reader.
std::uint64_t hash_of(const Json& from, std::string_view key) {
  const std::string& text = from.at(key).string();
  if (!text.starts_with("0x") || text.size() > 18 ||
      text.find_first_not_of("0123456789abcdef", 2) != std::string::npos)
    throw JsonError(fmt::format("'{}' is no hash", key));
  return text.size() == 2 ? 0 : std::stoull(text.substr(2), nullptr, 16);
}

std::string text_of(const Json& from, std::string_view key) {
  return printable_lines(from.at(key).string());
}

// Answers of earlier versions lack some members.
bool has(const Json& rank, std::string_view key) {
  const auto& keys = rank.keys();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// [rank, sends_begun, sends_ended, receives_begun, receives_ended]
std::map<int, WatchedView::Messages> messages_of(const Json& from) {
  std::map<int, WatchedView::Messages> messages;
  if (!has(from, "messages")) return messages;
  for (const Json& one : from.at("messages").elements()) {
    const Json::Array& words = one.elements();
    constexpr std::size_t kWords = 5;
    const bool in_range = words.size() == kWords && words[0].number() >= 0 &&
                          words[0].number() < kMaxSize &&
                          std::all_of(words.begin() + 1, words.end(), [](const Json& count) {
                            return count.number() >= 0 && count.number() <= 0xff;
                          });
    if (!in_range) throw JsonError("'messages' is out of range");
    const auto count = [&](std::size_t i) { return static_cast<std::uint8_t>(words[i].number()); };
    messages[static_cast<int>(words[0].number())] = {count(1), count(2), count(3), count(4)};
  }
  return messages;
}

std::optional<WatchedView> watched_of(const Json& rank) {
  if (!has(rank, "watched")) return std::nullopt;
  const Json& from = rank.at("watched");
  WatchedView watched;
  watched.phase = text_of(from, "phase");
  watched.network_peer = number_of<int>(from, "network_peer");
  watched.network_step = number_of<std::uint32_t>(from, "network_step");
  for (const Json& call : from.at("calls").elements())
    watched.calls[number_of<std::uint64_t>(call, "call")] = text_of(call, "text");
  if (has(from, "unseen_seconds"))
    watched.unseen_seconds = number_of<double>(from, "unseen_seconds");
  watched.messages = messages_of(from);
  if (has(from, "order")) watched.order = number_of<std::uint64_t>(from, "order");
  if (has(from, "has_graphs")) watched.has_graphs = number_of<int>(from, "has_graphs") != 0;
  return watched;
}

RankView rank_of(const Json& from) {
  RankView rank;
  rank.rank = number_of<int>(from, "rank");
  rank.pid = number_of<int>(from, "pid");
  rank.process = hash_of(from, "process");
  rank.host = text_of(from, "host");
  rank.address = text_of(from, "address");
  rank.device = number_of<int>(from, "device");
  rank.call = number_of<std::uint64_t>(from, "call");
  rank.finished = number_of<std::uint64_t>(from, "finished_call");
  rank.step = number_of<std::uint64_t>(from, "step");
  rank.core = number_of<int>(from, "core");
  rank.waits_for = number_of<int>(from, "waits_for");
  rank.waits_seconds = number_of<double>(from, "waits_seconds");
  rank.waits_in = text_of(from, "waits_in");
  rank.in_message = number_of<int>(from, "in_message") != 0;
  rank.in_kernel = number_of<int>(from, "in_kernel") != 0;
  rank.faulted = number_of<int>(from, "fault_status") != 0;
  rank.fault_status = number_of<int>(from, "fault_status");
  rank.culprit = number_of<int>(from, "culprit");
  rank.fault = text_of(from, "fault");
  rank.fault_by = number_of<int>(from, "fault_by");
  rank.fault_call = text_of(from, "fault_call");
  rank.state = text_of(from, "state");
  rank.doing = text_of(from, "doing");
  const Json::Array& counts = from.at("counts").elements();
  if (counts.size() != rank.counts.size()) throw JsonError("'counts' has another length");
  for (std::size_t i = 0; i < counts.size(); ++i)
    rank.counts[i] = static_cast<std::uint64_t>(std::clamp(counts[i].number(), 0.0, 9e18));
  if (has(from, "survivors")) rank.survivors = hash_of(from, "survivors");
  rank.watched = watched_of(from);
  if (rank.rank < -1 || rank.rank >= kMaxSize) throw JsonError("'rank' is out of range");
  return rank;
}

LinkView link_of(const Json& from) {
  LinkView link;
  link.host = text_of(from, "host");
  link.own = text_of(from, "own_address");
  link.address = text_of(from, "address");
  link.sent_bytes = number_of<std::uint64_t>(from, "sent_bytes");
  link.received_bytes = number_of<std::uint64_t>(from, "received_bytes");
  link.segments = number_of<std::uint64_t>(from, "segments");
  link.resent_segments = number_of<std::uint64_t>(from, "resent_segments");
  link.rtt_seconds = number_of<double>(from, "rtt_seconds");
  link.bytes_per_second = number_of<double>(from, "bytes_per_second");
  link.newest_per_second = number_of<double>(from, "newest_bytes_per_second");
  return link;
}

ProcessView process_of(const Json& from) {
  ProcessView process{number_of<int>(from, "pid"), hash_of(from, "process"), text_of(from, "host"),
                      text_of(from, "command"), text_of(from, "job")};
  for (const Json& setting : from.at("settings").elements()) {
    const std::string text = printable(setting.string());
    const std::size_t equals = std::min(text.find('='), text.size());
    process.settings[text.substr(0, equals)] = text.substr(std::min(equals + 1, text.size()));
  }
  for (const Json& link : from.at("links").elements()) process.links.push_back(link_of(link));
  return process;
}

CommunicatorView communicator_of(const Json& from) {
  CommunicatorView view;
  view.name = text_of(from, "name");
  view.hash = hash_of(from, "hash");
  view.host_hash = hash_of(from, "host_hash");
  view.process_hash = hash_of(from, "process_hash");
  view.size = number_of<int>(from, "size");
  view.joined = number_of<int>(from, "joined");
  if (view.size < 0 || view.size > kMaxSize) throw JsonError("'size' is out of range");
  for (const Json& rank : from.at("ranks").elements()) view.ranks.push_back(rank_of(rank));
  return view;
}

}  // namespace

std::string hash_text(std::uint64_t hash) { return fmt::format("0x{:x}", hash); }

Json json_of(const RankView& rank) {
  Json json{{"rank", rank.rank},
            {"pid", rank.pid},
            {"process", hash_text(rank.process)},
            {"host", rank.host},
            {"address", rank.address},
            {"device", rank.device},
            {"state", rank.state},
            {"faulted", rank.faulted},
            {"fault_status", rank.fault_status},
            {"culprit", rank.culprit},
            {"fault", rank.fault},
            {"fault_by", rank.fault_by},
            {"fault_call", rank.fault_call},
            {"call", rank.call},
            {"finished_call", rank.finished},
            {"step", rank.step},
            {"core", rank.core},
            {"waits_for", rank.waits_for},
            {"waits_seconds", std::round(rank.waits_seconds * 1000) / 1000},
            {"waits_in", rank.waits_in},
            {"in_message", rank.in_message ? 1 : 0},
            {"in_kernel", rank.in_kernel ? 1 : 0},
            {"doing", rank.doing},
            {"counts", std::vector<std::uint64_t>(rank.counts.begin(), rank.counts.end())}};
  if (rank.survivors != 0) json["survivors"] = hash_text(rank.survivors);
  if (!rank.watched) return json;
  Json calls = Json::array();
  for (const auto& [number, text] : rank.watched->calls)
    calls.push_back({{"call", number}, {"text", text}});
  Json messages = Json::array();
  for (const auto& [other, counts] : rank.watched->messages)
    messages.push_back(std::vector<int>{other, counts.sends_begun, counts.sends_ended,
                                        counts.receives_begun, counts.receives_ended});
  json["watched"] = Json{{"phase", rank.watched->phase},
                         {"network_peer", rank.watched->network_peer},
                         {"network_step", rank.watched->network_step},
                         {"calls", std::move(calls)},
                         {"unseen_seconds", rank.watched->unseen_seconds},
                         {"order", rank.watched->order},
                         {"has_graphs", rank.watched->has_graphs ? 1 : 0},
                         {"messages", std::move(messages)}};
  return json;
}

Json json_of(const LinkView& link) {
  return {{"host", link.host},
          {"own_address", link.own},
          {"address", link.address},
          {"sent_bytes", link.sent_bytes},
          {"received_bytes", link.received_bytes},
          {"segments", link.segments},
          {"resent_segments", link.resent_segments},
          {"rtt_seconds", link.rtt_seconds},
          {"bytes_per_second", std::round(link.bytes_per_second)},
          {"newest_bytes_per_second", std::round(link.newest_per_second)}};
}

std::string kernel_wait_text(const RankView& rank) {
  const std::string awaited =
      rank.waits_for < 0 ? "waits" : fmt::format("waits for rank {}", rank.waits_for);
  return fmt::format("in {} on its GPU, {}, for {:.1f} s", rank.waits_in, awaited,
                     rank.waits_seconds);
}

Json JobView::to_json() const {
  Json all = Json::array(), answered = Json::array();
  for (const CommunicatorView& communicator : communicators) {
    Json ranks = Json::array();
    for (const RankView& rank : communicator.ranks) ranks.push_back(json_of(rank));
    all.push_back({{"name", communicator.name},
                   {"hash", hash_text(communicator.hash)},
                   {"host_hash", hash_text(communicator.host_hash)},
                   {"process_hash", hash_text(communicator.process_hash)},
                   {"size", communicator.size},
                   {"joined", communicator.joined},
                   {"ranks", std::move(ranks)}});
  }
  for (const ProcessView& process : processes) {
    Json settings = Json::array(), links = Json::array();
    for (const LinkView& link : process.links) links.push_back(json_of(link));
    for (const auto& [name, value] : process.settings) settings.push_back(name + '=' + value);
    answered.push_back({{"pid", process.pid},
                        {"process", hash_text(process.process)},
                        {"host", process.host},
                        {"command", process.command},
                        {"job", process.job},
                        {"settings", std::move(settings)},
                        {"links", std::move(links)}});
  }
  return {{"processes", std::move(answered)},
          {"communicators", std::move(all)},
          {"silent", silent},
          {"collection_seconds", collection_seconds}};
}

Result<JobView> JobView::from_json(std::string_view text) {
  try {
    const Json document = Json::parse(text);
    JobView view;
    for (const Json& process : document.at("processes").elements())
      view.processes.push_back(process_of(process));
    for (const Json& communicator : document.at("communicators").elements())
      view.communicators.push_back(communicator_of(communicator));
    for (const Json& name : document.at("silent").elements())
      view.silent.push_back(printable(name.string()));
    view.collection_seconds = number_of<double>(document, "collection_seconds");
    return view;
  } catch (const JsonError& error) {
    return fail(StatusCode::kRemoteError,
                "a process answered with a status that cannot be read: {}", error.what());
  }
}

void JobView::merge(JobView other) {
  for (ProcessView& process : other.processes)
    if (std::none_of(processes.begin(), processes.end(), [&](const ProcessView& known) {
          return known.process == process.process && known.pid == process.pid;
        }))
      processes.push_back(std::move(process));
  for (CommunicatorView& theirs : other.communicators) {
    const auto known = std::find_if(
        communicators.begin(), communicators.end(),
        [&](const CommunicatorView& one) { return one.hash != 0 && one.hash == theirs.hash; });
    if (known == communicators.end()) {
      communicators.push_back(std::move(theirs));
      continue;
    }
    known->joined = std::max(known->joined, theirs.joined);
    known->size = std::max(known->size, theirs.size);
    std::vector<RankView>& ranks = known->ranks;
    for (RankView& rank : theirs.ranks) {
      const auto at =
          std::lower_bound(ranks.begin(), ranks.end(), rank.rank,
                           [](const RankView& one, int number) { return one.rank < number; });
      if (at == ranks.end() || at->rank != rank.rank) {
        ranks.insert(at, std::move(rank));
      } else if (at->state == "elsewhere" || at->state == "silent" || at->state == "not_joined") {
        *at = std::move(rank);
      }
    }
  }
  silent.insert(silent.end(), other.silent.begin(), other.silent.end());
}

namespace {

using HostCpu = std::pair<std::string, int>;  // host and CPU

bool uses_a_cpu(const RankView& rank) {
  return rank.core >= 0 && rank.device < 0 && rank.call > 0 && rank.state == "running";
}

std::map<HostCpu, std::vector<int>> ranks_by_cpu(const CommunicatorView& communicator) {
  std::map<HostCpu, std::vector<int>> ranks;
  for (const RankView& rank : communicator.ranks)
    if (uses_a_cpu(rank)) ranks[{rank.host, rank.core}].push_back(rank.rank);
  return ranks;
}

std::string sharing_text(const SharedCpu& shared) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(shared.ranks.size(), kShown);
  const std::string rest = shown < shared.ranks.size()
                               ? fmt::format(" and {} more", shared.ranks.size() - shown)
                               : std::string();
  return fmt::format(
      "ranks {}{} made their newest calls on CPU {}{}: if that lasts, they take turns on it",
      fmt::join(shared.ranks.begin(), shared.ranks.begin() + static_cast<std::ptrdiff_t>(shown),
                ", "),
      rest, shared.cpu, shared.host.empty() ? "" : " of host " + shared.host);
}

}  // namespace

std::vector<SharedCpu> shared_cores(const JobView& view) {
  std::vector<SharedCpu> found;
  std::set<HostCpu> known;
  for (const CommunicatorView& communicator : view.communicators)
    for (auto& [place, ranks] : ranks_by_cpu(communicator)) {
      if (ranks.size() < 2 || !known.insert(place).second) continue;
      SharedCpu shared{place.first, place.second, std::move(ranks), ""};
      shared.text = sharing_text(shared);
      found.push_back(std::move(shared));
    }
  return found;
}

}  // namespace rondo
