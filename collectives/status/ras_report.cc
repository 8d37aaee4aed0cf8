// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/ras_report.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "collectives/status/diagnosis.h"
#include "collectives/status/slow_links.h"

namespace rondo {
namespace {

constexpr const char* kCountedNames[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                         "AllReduce"};
constexpr int kInitInProgress = 7;           // ncclInProgress
constexpr int kCountOf[] = {1, 2, 3, 4, 0};  // index in RankView::counts, in the order above

bool is_missing(const RankView& rank) {
  return rank.state == "silent" || rank.state == "not_joined" || rank.rank < 0;
}
bool is_dead(const RankView& rank) { return rank.state == "ended"; }

// NCCL counts a rank as missing if its process did not answer; Rondo's view of a rank that is
// stopped comes from its host's other processes, so it is there.
bool counts_as_missing(const RankView& rank) { return is_missing(rank) || is_dead(rank); }

bool was_aborted(const RankView& rank) { return rank.faulted && rank.culprit == rank.rank; }

std::string address_or_unknown(const RankView& rank) {
  return rank.address.empty() ? "unknown" : rank.address;
}

Json rank_json(const RankView& rank) {
  Json counts;
  for (std::size_t i = 0; i < std::size(kCountedNames); ++i)
    counts[kCountedNames[i]] = rank.counts[static_cast<std::size_t>(kCountOf[i])];
  return {{"rank", rank.rank},
          {"host", address_or_unknown(rank)},
          {"pid", rank.pid},
          {"cuda_dev", rank.device},
          {"nvml_dev", rank.device},
          {"status", Json{{"init_state", rank.state == "joining" ? kInitInProgress : 0},
                          {"async_error", rank.fault_status},
                          {"finalize_called", rank.state == "left"},
                          {"destroy_flag", rank.state == "left"},
                          {"abort_flag", was_aborted(rank)}}},
          {"collective_counts", std::move(counts)}};
}

Json missing_json(const RankView& rank) {
  return {{"rank", rank.rank},
          {"host", address_or_unknown(rank)},
          {"pid", rank.pid == 0 ? -1 : rank.pid},
          {"cuda_dev", rank.device},
          {"nvml_dev", rank.device},
          {"status",
           Json{{"unresponsive", rank.state != "not_joined"}, {"considered_dead", is_dead(rank)}}}};
}

std::vector<const CommunicatorView*> by_hash(const JobView& view) {
  std::vector<const CommunicatorView*> sorted;
  for (const CommunicatorView& communicator : view.communicators) sorted.push_back(&communicator);
  const auto key = [](const CommunicatorView* one) {
    return std::tuple(one->hash, one->host_hash, one->process_hash);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return sorted;
}

Json communicator_json(const CommunicatorView& communicator) {
  Json ranks = Json::array(), missing = Json::array();
  int present = 0, absent = 0;
  for (const RankView& rank : communicator.ranks) {
    if (rank.rank < 0) continue;
    counts_as_missing(rank) ? ++absent : ++present;
    counts_as_missing(rank) ? missing.push_back(missing_json(rank))
                            : ranks.push_back(rank_json(rank));
  }
  return {{"hash", hash_text(communicator.hash)},
          {"secondary_hash",
           hash_text(communicator.host_hash) + ':' + hash_text(communicator.process_hash)},
          {"size", communicator.size},
          {"ranks_count", present},
          {"missing_ranks_count", absent},
          {"ranks", std::move(ranks)},
          {"missing_ranks", std::move(missing)}};
}

// Beyond NCCL: whom the job waits for.
Json diagnosis_json(const JobView& view) {
  Json blamed = Json::array(), waits = Json::array(), slow = Json::array();
  for (const SlowLink& link : slow_links(view)) slow.push_back(json_of(link));
  for (const Blame& blame : diagnose(view))
    blamed.push_back({{"communicator", hash_text(view.communicators[blame.communicator].hash)},
                      {"rank", blame.rank},
                      {"kind", name_of(blame.kind)},
                      {"waiters", blame.waiters},
                      {"waits_seconds", std::round(blame.seconds * 1000) / 1000},
                      {"text", blame.text}});
  for (const CommunicatorView& communicator : view.communicators)
    for (const RankView& rank : communicator.ranks)
      if (rank.waits_for >= 0)
        waits.push_back({{"communicator", hash_text(communicator.hash)},
                         {"rank", rank.rank},
                         {"waits_for", rank.waits_for},
                         {"call", rank.call},
                         {"waits_in", rank.waits_in},
                         {"waits_seconds", std::round(rank.waits_seconds * 1000) / 1000}});
  return {{"blamed", std::move(blamed)},
          {"waits", std::move(waits)},
          {"slow_links", std::move(slow)},
          {"silent", view.silent}};
}

std::string underlined(const std::string& heading) {
  return heading + '\n' + std::string(heading.size(), '=') + "\n\n";
}

std::string cuda_version(int version) {
  return version < 0 ? "none" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string summary(const JobView& view) {
  std::set<std::string> hosts;
  std::set<std::pair<std::string, int>> processes;
  int gpus = 0;
  for (const CommunicatorView& communicator : view.communicators)
    for (const RankView& rank : communicator.ranks) {
      if (rank.rank < 0) continue;
      hosts.insert(rank.host);
      if (processes.insert({rank.host, rank.pid}).second) gpus += rank.device >= 0;
    }
  return fmt::format("{:>8}{:>12}{:>8}\n{:>8}{:>12}{:>8}\n\n", "Hosts", "Processes", "GPUs",
                     hosts.size(), processes.size(), gpus);
}

const char* status_of(const CommunicatorView& communicator) {
  for (const RankView& rank : communicator.ranks)
    if (was_aborted(rank)) return "ABORT";
  for (const RankView& rank : communicator.ranks)
    if (rank.state == "joining") return "INIT";
  for (const RankView& rank : communicator.ranks)
    if (rank.state == "left") return "FINALIZE";
  return "RUNNING";
}

// Ranks of a job that makes progress are not all asked in the same call.
bool stands_still(const CommunicatorView& communicator) {
  return std::any_of(
      communicator.ranks.begin(), communicator.ranks.end(), [](const RankView& rank) {
        return rank.faulted || (rank.waits_for >= 0 && rank.waits_seconds >= kLongWaitSeconds);
      });
}

// The words of NCCL, joined by commas in its order.
std::string errors_of(const CommunicatorView& communicator) {
  bool incomplete = false, error = false, mismatch = false;
  const RankView* first = nullptr;
  for (const RankView& rank : communicator.ranks) {
    incomplete |= counts_as_missing(rank);
    error |= rank.faulted;
    if (counts_as_missing(rank)) continue;
    if (first == nullptr) first = &rank;
    mismatch |= rank.counts != first->counts;
  }
  std::string text;
  const auto add = [&](bool present, const char* word) {
    if (present) text += (text.empty() ? "" : ",") + std::string(word);
  };
  add(incomplete, "INCOMPLETE");
  add(error, "ERROR");
  add(mismatch && stands_still(communicator), "MISMATCH");
  return text.empty() ? "OK" : text;
}

std::string rank_line(const RankView& rank) {
  return fmt::format("    rank {:<5} pid {:<8} {:<16} {}{}\n", rank.rank, rank.pid,
                     rank.host.empty() ? address_or_unknown(rank) : rank.host, rank.doing,
                     rank.state == "silent" ? "no answer" : "");
}

}  // namespace

std::string ras_timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%F %T", &local)};
}

std::string ras_json(const JobView& view, const RasFacts& facts) {
  Json communicators = Json::array();
  for (const CommunicatorView* communicator : by_hash(view))
    communicators.push_back(communicator_json(*communicator));
  const Json document{
      {"nccl_version", facts.version},
      {"cuda_runtime_version", facts.cuda_runtime},
      {"cuda_driver_version", facts.cuda_driver},
      {"timestamp", ras_timestamp()},
      {"communicators_count", view.communicators.size()},
      {"communicators", std::move(communicators)},
      {"ras", Json{{"collection_time_sec", std::round(view.collection_seconds * 1000) / 1000},
                   {"timeouts_count", view.silent.size()}}},
      {"rondo", diagnosis_json(view)}};
  return document.text(2) + '\n';
}

std::string ras_text(const JobView& view, const RasFacts& facts, bool verbose) {
  std::string text =
      fmt::format("Rondo, NCCL version {} compatible, CUDA runtime {}, driver {}\n\n",
                  facts.version, cuda_version(facts.cuda_runtime), cuda_version(facts.cuda_driver));
  text += underlined("Job summary") + summary(view);
  text += fmt::format("Communicators... ({:.2f}s)\n=============\n\n", view.collection_seconds);
  text += fmt::format("{:>7}  {:<18} {:>6} {:>6}  {:<9} {}\n", "Group", "Comm hash", "Size",
                      "Ranks", "Status", "Errors");
  int number = 0;
  std::string errors;
  for (const CommunicatorView* communicator : by_hash(view)) {
    const std::string wrong = errors_of(*communicator);
    text += fmt::format("{:>7}  {:<18} {:>6} {:>6}  {:<9} {}\n", number,
                        hash_text(communicator->hash), communicator->size,
                        communicator->ranks.size(), status_of(*communicator), wrong);
    if (wrong != "OK" || verbose)
      errors += fmt::format("#{} ({}) {}\n", number, hash_text(communicator->hash), wrong);
    for (const RankView& rank : communicator->ranks)
      if (verbose || counts_as_missing(rank) || rank.faulted) errors += rank_line(rank);
    ++number;
  }
  text += "\n" + underlined("Errors") + errors;
  for (const Blame& blame : diagnose(view)) text += blame.text + '\n';
  text += "\n" + underlined("Warnings");
  for (const SlowLink& link : slow_links(view)) text += link.text + '\n';
  for (const std::string& silent : view.silent) text += silent + " did not answer in time\n";
  return text;
}

std::string ras_diagnostics(const JobView& view) {
  std::map<std::string, std::map<std::string, std::vector<const ProcessView*>>> values;
  for (const ProcessView& process : view.processes)
    for (const auto& [name, value] : process.settings) values[name];
  for (auto& [name, by_value] : values)
    for (const ProcessView& process : view.processes) {
      const auto set = process.settings.find(name);
      by_value[set == process.settings.end() ? "unset" : set->second].push_back(&process);
    }
  const auto place = [](const ProcessView& process) {
    return fmt::format("{}:{}", process.host, process.pid);
  };
  std::string text;
  for (const auto& [name, by_value] : values) {
    if (by_value.size() == 1) continue;
    for (const auto& [value, processes] : by_value)
      text += fmt::format(
          "{} NCCL DIAG [INFO] {} is {} here{}\n", place(*processes.front()), name, value,
          processes.size() == 1 ? "" : " and in " + counted(processes.size() - 1, "other process"));
  }
  for (const std::string& silent : view.silent)
    text += fmt::format("{} NCCL DIAG [INFO] did not answer in time\n", silent);
  if (text.empty() && !view.processes.empty())
    text =
        fmt::format("{} NCCL DIAG [OK] equal settings of {} in {}\n", place(view.processes.front()),
                    counted(values.size(), "variable"), counted(view.processes.size(), "process"));
  return text;
}

}  // namespace rondo
