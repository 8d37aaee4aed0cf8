// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/remote_lists.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace rondo {
namespace {

constexpr std::size_t kMaxHosts = 16;
constexpr std::chrono::milliseconds kBetween{250};
constexpr std::chrono::seconds kAnswerTime{1};

}  // namespace

RemoteLists::RemoteLists(const CommunicatorState& state, const std::vector<int>& survivors)
    : state_(state) {
  if (state.status == nullptr) return;
  std::map<std::uint64_t, std::vector<int>> ranks;  // by host
  for (const int rank : survivors)
    if (state.members.local_of(rank) < 0)
      ranks[state.members.ranks[static_cast<std::size_t>(rank)].host].push_back(rank);
  for (auto& [host, those] : ranks) {
    if (hosts_.size() == kMaxHosts) break;
    hosts_.push_back({.ranks = std::move(those)});
  }
}

void RemoteLists::step() {
  const auto now = net::Clock::now();
  for (Host& host : hosts_) step(host, now);
}

void RemoteLists::step(Host& host, net::Clock::time_point now) {
  if (!host.asked && now >= host.next) {
    const int rank = host.ranks[host.turn++ % host.ranks.size()];
    host.asked = status::Question::to_rank(state_.status->shown().question_to(rank), "VIEW OWN",
                                           now + kAnswerTime);
  }
  if (!host.asked) return;
  host.asked->step();
  if (!host.asked->is_over()) return;
  const Result<std::string> answer = host.asked->answer();
  host.asked.reset();
  host.next = now + kBetween;
  const auto view = answer.ok() ? JobView::from_json(*answer) : Result<JobView>(answer.error());
  note(host, view.ok() ? *view : JobView());
}

void RemoteLists::note(const Host& host, const JobView& view) {
  for (const int rank : host.ranks) shown_.erase(rank);
  const std::uint64_t hash = status_hash(state_.status->shown().secret);
  for (const CommunicatorView& communicator : view.communicators) {
    if (communicator.hash != hash) continue;
    for (const RankView& rank : communicator.ranks)
      if (std::binary_search(host.ranks.begin(), host.ranks.end(), rank.rank))
        shown_[rank.rank] = rank.survivors;
  }
}

std::uint64_t RemoteLists::of(int rank) const {
  const auto shown = shown_.find(rank);
  return shown == shown_.end() ? 0 : shown->second;
}

}  // namespace rondo
