// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/diagnosis.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/printable.h"
#include "collectives/status/watched_ranks.h"

namespace rondo {
namespace {

struct Place {
  std::size_t communicator;
  int rank;
  auto operator<=>(const Place&) const = default;
};

class ChainsOfWaits {
 public:
  ChainsOfWaits(const JobView& view, double long_wait) : view_(view), long_wait_(long_wait) {
    for (std::size_t c = 0; c < view.communicators.size(); ++c)
      for (const RankView& rank : view.communicators[c].ranks) ranks_[{c, rank.rank}] = &rank;
  }

  std::vector<Blame> run() {
    for (std::size_t c = 0; c < view_.communicators.size(); ++c) find_other_calls(c);
    for (const auto& [place, rank] : ranks_) {
      if (mismatched_.contains(place.communicator)) continue;
      if (rank->faulted) {
        follow_fault(place, *rank);
      } else if (waits_long(*rank)) {
        follow_waits(place, rank->waits_seconds);
      }
    }
    for (std::size_t c = 0; c < view_.communicators.size(); ++c) find_absent(c), find_alike(c);
    std::vector<Blame> blames;
    for (auto& [place, blame] : blames_) blames.push_back(std::move(blame));
    std::stable_sort(blames.begin(), blames.end(), [](const Blame& a, const Blame& b) {
      return a.waiters != b.waiters ? a.waiters > b.waiters : a.kind < b.kind;
    });
    for (Blame& blame : blames) describe(&blame);
    return blames;
  }

 private:
  // Ranks that have not joined a communicator that is being made.
  void find_absent(std::size_t communicator) {
    const CommunicatorView& view = view_.communicators[communicator];
    double longest = 0;
    int joining = 0;
    for (const RankView& rank : view.ranks) {
      if (rank.state != "joining") continue;
      longest = std::max(longest, rank.waits_seconds);
      ++joining;
    }
    if (longest < std::max(long_wait_, kLongJoinSeconds)) return;
    for (const RankView& rank : view.ranks) {
      if (rank.state != "not_joined" || rank.rank < 0) continue;
      Blame& blame = add({communicator, rank.rank}, Blame::kNotJoined, longest);
      blame.waiters = std::max(joining, view.joined);
    }
  }

  // Of watched ranks, once one waits long.
  void find_other_calls(std::size_t communicator) {
    const CommunicatorView& view = view_.communicators[communicator];
    int waiters = 0;
    double longest = 0;
    for (const RankView& rank : view.ranks) {
      if (!rank.watched || !rank.in_kernel || rank.waits_seconds < long_wait_) continue;
      ++waiters;
      longest = std::max(longest, rank.waits_seconds);
    }
    if (waiters == 0) return;
    for (const OtherCall& other : other_calls(view)) {
      Blame& blame = add({communicator, other.rank}, Blame::kOtherCall, longest);
      blame.waiters = waiters;
      blame.text = other.text;
      mismatched_.insert(communicator);
    }
  }

  void find_alike(std::size_t communicator) {
    const AlikeWait alike = alike_wait(view_.communicators[communicator]);
    const double limit = alike.is_complete ? std::max(long_wait_, kLongAlikeSeconds) : long_wait_;
    if (alike.waiters == 0 || alike.seconds < limit || mismatched_.contains(communicator)) return;
    const Blame::Kind kind = alike.is_complete ? Blame::kAlike : Blame::kElsewhere;
    Blame& blame = add({communicator, -1}, kind, alike.seconds);
    blame.waiters = alike.waiters;
    blame.text = alike.text;
  }

  // A call that is not seen to end may have ended: a broadcast's root may be far behind it.
  bool waits_long(const RankView& rank) const {
    const double limit = is_unseen(rank) ? std::max(long_wait_, kLongAlikeSeconds) : long_wait_;
    return rank.state == "running" && rank.waits_for >= 0 && rank.waits_seconds >= limit;
  }

  const RankView* find(const Place& place) const {
    const auto found = ranks_.find(place);
    return found == ranks_.end() ? nullptr : found->second;
  }

  // The rank that finds a mismatch may itself be the one that differs from most. Each other rank
  // votes by its call, or by how many calls it has made. With as many for both, either may be.
  std::vector<int> voted_culprits(std::size_t communicator, const RankView& faulted) const {
    const RankView* const finder = find({communicator, faulted.fault_by});
    const RankView* const accused = find({communicator, faulted.culprit});
    const std::vector<RankView>& ranks = view_.communicators[communicator].ranks;
    const auto has_call = [](const RankView& rank) { return !rank.fault_call.empty(); };
    const bool is_mismatch = faulted.fault.starts_with("Mismatched calls") ||
                             std::any_of(ranks.begin(), ranks.end(), has_call);
    if (finder == nullptr || accused == nullptr || !is_mismatch) return {faulted.culprit};
    // Either may not have the fault yet, or had not when it was asked.
    const bool by_calls = !finder->fault_call.empty() && !accused->fault_call.empty();
    int votes = 0;  // against the finder
    for (const RankView& rank : ranks) {
      const bool known = by_calls && !rank.fault_call.empty();
      const bool as_finder =
          known ? rank.fault_call == finder->fault_call : rank.counts == finder->counts;
      const bool as_accused =
          known ? rank.fault_call == accused->fault_call : rank.counts == accused->counts;
      votes += as_accused - as_finder;
    }
    if (votes == 0 && finder != accused) return {accused->rank, finder->rank};
    return {votes > 0 ? finder->rank : accused->rank};
  }

  // A rank that aborted its communicator, or withdrew it from its peers, is no culprit.
  void follow_fault(const Place& place, const RankView& rank) {
    if (rank.culprit < 0) return;
    const std::vector<int> voted = voted_culprits(place.communicator, rank);
    for (const int one : voted) {
      const Place blamed{place.communicator, one};
      const RankView* const culprit = find(blamed);
      const auto end = culprit != nullptr ? kind_of_end(*culprit) : std::nullopt;
      const bool more_than_fault = end.has_value() && *end != Blame::kSilent;
      if (!more_than_fault && one == place.rank && voted.size() == 1) continue;
      add(blamed, more_than_fault ? *end : Blame::kFault, 0).text = first_line(rank.fault);
    }
  }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  void follow_waits(Place at, double seconds) {
    std::vector<Place> path;  // of ranks that wait
    std::set<Place> seen;
    for (const RankView* rank = find(at);;) {
      if (!seen.insert(at).second)
        return add_cycle({std::find(path.begin(), path.end(), at), path.end()}, seconds);
      path.push_back(at);
      const Place next{at.communicator, rank->waits_for};
      const RankView* const awaited = find(next);
      if (awaited == nullptr) return void(add(next, Blame::kElsewhere, seconds));
      if (const auto end = kind_of_end(*awaited)) return void(add(next, *end, seconds));
      if (waits_some(*awaited)) {
        at = next;
        rank = awaited;
        continue;
      }
      if (is_stuck(*awaited)) return void(add_stuck(next, seconds));
      // Outside of this call: perhaps it waits in another communicator. An enqueued kernel that
      // has not begun waits only for what was called before it.
      const bool outside = is_outside(*awaited, *rank);
      const auto elsewhere = wait_elsewhere(next, outside && !is_enqueued(*awaited));
      if (!elsewhere) {
        Blame& blame = add(next, outside ? Blame::kNotEntered : Blame::kLate, seconds);
        if (blame.text.empty()) blame.text = call_text(*rank) + instead_of(*awaited);
        return;
      }
      at = *elsewhere;
      rank = find(at);
    }
  }

  // One that is stuck alone is late; of several, find_alike() tells.
  void add_stuck(const Place& place, double seconds) {
    const std::vector<RankView>& ranks = view_.communicators[place.communicator].ranks;
    if (std::count_if(ranks.begin(), ranks.end(), is_stuck) > 1) return;
    const RankView& rank = *find(place);
    add(place, Blame::kLate, seconds).text = call_text(rank) + instead_of(rank);
  }

  // The stream of a watched rank whose kernel has not begun may hold one of another communicator.
  static bool is_outside(const RankView& awaited, const RankView& waiter) {
    if (waiter.in_message) return !is_enqueued(awaited);
    if (!awaited.watched || !waiter.watched) return awaited.call < waiter.call;
    return awaited.call < point_of(waiter);
  }

  // Waits that are shorter lie behind others in a chain, or are part of progress.
  bool waits_some(const RankView& rank) const {
    return rank.state == "running" && rank.waits_for >= 0 && rank.waits_seconds >= long_wait_ / 2;
  }

  static std::optional<Blame::Kind> kind_of_end(const RankView& rank) {
    if (rank.state == "ended") return Blame::kEnded;
    if (rank.state == "stopped") return Blame::kStopped;
    if (rank.state == "silent") return Blame::kSilent;
    if (rank.state == "left") return Blame::kLeft;
    return std::nullopt;
  }

  static bool same_process(const RankView& a, const RankView& b) {
    if (a.process != 0 && b.process != 0) return a.process == b.process;
    return a.pid != 0 && a.pid == b.pid && a.host == b.host;
  }

  // Where the process of a rank waits, if that is its only rank in the communicator: with several
  // it is not known which one's thread waits there.
  std::optional<Place> wait_elsewhere(const Place& at, bool is_outside) const {
    const RankView& rank = *find(at);
    std::optional<Place> found;
    for (const auto& [place, other] : ranks_) {
      if (other == &rank || !same_process(*other, rank)) continue;
      if (place.communicator == at.communicator) return std::nullopt;
      if (!found && waits_some(*other) && (is_outside || is_before(*other, rank))) found = place;
    }
    return found;
  }

  Blame& add(const Place& place, Blame::Kind kind, double seconds) {
    Blame& blame = blames_[place];
    blame.communicator = place.communicator;
    blame.rank = place.rank;
    blame.kind = blame.waiters == 0 ? kind : std::min(blame.kind, kind);
    blame.waiters += 1;
    blame.seconds = std::max(blame.seconds, seconds);
    return blame;
  }

  // Ranks that wait for each other: the one in the oldest call is named. If they wait in several
  // communicators, all ranks that wait there tell the order in which each entered them.
  void add_cycle(const std::vector<Place>& cycle, double seconds) {
    std::set<std::size_t> communicators;
    for (const Place& place : cycle) communicators.insert(place.communicator);
    if (communicators.size() == 1) {
      const Place& oldest =
          *std::min_element(cycle.begin(), cycle.end(), [&](const Place& a, const Place& b) {
            return std::pair(find(a)->call, a) < std::pair(find(b)->call, b);
          });
      add(oldest, Blame::kCycle, seconds);
      return;
    }
    std::map<std::size_t, std::vector<Place>> waiting;
    for (const auto& [place, rank] : ranks_)
      if (communicators.contains(place.communicator) && waits_some(*rank))
        waiting[place.communicator].push_back(place);
    add(waiting.begin()->second.front(), Blame::kCycle, seconds).text = order_text(waiting);
  }

  // "ranks entered data and tensor in different order: 0, 1 first data; 2, 3 first tensor"
  std::string order_text(const std::map<std::size_t, std::vector<Place>>& waiting) const {
    const std::optional<std::size_t> common = common_of(waiting);
    std::vector<std::string> names, orders;
    for (const auto& [communicator, places] : waiting) {
      names.push_back(title(communicator));
      std::vector<int> numbers;
      for (const Place& place : places)
        numbers.push_back(common ? number_in(*common, *find(place)) : place.rank);
      std::sort(numbers.begin(), numbers.end());
      orders.push_back(fmt::format("{} first {}", fmt::join(numbers, ", "), names.back()));
    }
    const std::string last = names.back();
    names.pop_back();
    return fmt::format("ranks entered {} and {} in different order: {}", fmt::join(names, ", "),
                       last, fmt::join(orders, "; "));
  }

  // The rank of this process in a communicator; -1: none, or several.
  int number_in(std::size_t communicator, const RankView& of) const {
    int found = -1;
    for (const RankView& rank : view_.communicators[communicator].ranks) {
      if (!same_process(rank, of)) continue;
      if (found >= 0) return -1;
      found = rank.rank;
    }
    return found;
  }

  // The largest communicator that has all of them: its numbers are those that users know.
  std::optional<std::size_t> common_of(
      const std::map<std::size_t, std::vector<Place>>& waiting) const {
    std::optional<std::size_t> largest;
    for (std::size_t c = 0; c < view_.communicators.size(); ++c) {
      if (largest && view_.communicators[c].size <= view_.communicators[*largest].size) continue;
      const auto has_all = [&](const auto& entry) {
        return std::all_of(entry.second.begin(), entry.second.end(),
                           [&](const Place& place) { return number_in(c, *find(place)) >= 0; });
      };
      if (std::all_of(waiting.begin(), waiting.end(), has_all)) largest = c;
    }
    return largest;
  }

  // Its name, if no other one has it; else its id.
  std::string title(std::size_t communicator) const {
    const CommunicatorView& of = view_.communicators[communicator];
    const auto same =
        std::count_if(view_.communicators.begin(), view_.communicators.end(),
                      [&](const CommunicatorView& one) { return one.name == of.name; });
    if (same == 1 && !of.name.empty()) return of.name;
    return of.name.empty() ? hash_text(of.hash)
                           : fmt::format("{} ({})", of.name, hash_text(of.hash));
  }

  static std::string call_text(const RankView& waiter) {
    if (waiter.watched && !waiter.in_message)
      return fmt::format("call {}, {}", point_of(waiter), waiter.waits_in);
    if (waiter.in_message || waiter.in_kernel) return waiter.waits_in;
    return fmt::format("call {}, {}", waiter.call, waiter.waits_in);
  }

  void describe(Blame* blame) const {
    const CommunicatorView& communicator = view_.communicators[blame->communicator];
    const RankView* const rank = find({blame->communicator, blame->rank});
    std::string who = fmt::format("rank {}", blame->rank);
    if (rank != nullptr && rank->pid != 0)
      who += rank->host.empty() ? fmt::format(" (pid {})", rank->pid)
                                : fmt::format(" (pid {} on {})", rank->pid, rank->host);
    if (view_.communicators.size() > 1)
      who += communicator.name.empty() ? fmt::format(" of a communicator of {}", communicator.size)
                                       : fmt::format(" of communicator {}", communicator.name);
    const std::string detail = std::exchange(blame->text, "");
    if (blame->rank < 0) {
      blame->text = fmt::format("{}, {:.1f} s", detail, blame->seconds);
      return;
    }
    if (blame->kind == Blame::kCycle && !detail.empty()) {
      blame->text =
          fmt::format("{}: {} for each other, {:.1f} s", detail,
                      counted(blame->waiters, "rank") + (blame->waiters == 1 ? " waits" : " wait"),
                      blame->seconds);
      return;
    }
    if (blame->seconds == 0 && !detail.empty()) {
      blame->text = fmt::format("{} {}: {}", who, what(blame->kind, ""), detail);
      return;
    }
    blame->text =
        fmt::format("{} {}: {} for it, {:.1f} s", who, what(blame->kind, detail),
                    counted(blame->waiters, "rank") + (blame->waiters == 1 ? " waits" : " wait"),
                    blame->seconds);
  }

  static std::string what(Blame::Kind kind, const std::string& call) {
    switch (kind) {
      case Blame::kEnded:
        return "has ended";
      case Blame::kStopped:
        return "is stopped (a signal, a debugger or a frozen control group)";
      case Blame::kSilent:
        return "does not answer, nor does another process of its host";
      case Blame::kLeft:
        return "has destroyed its communicator";
      case Blame::kNotJoined:
        return "has not joined (it has not called ncclCommInitRank, or does not reach the others)";
      case Blame::kFault:
        return "is blamed by a fault";
      case Blame::kOtherCall:
        return call;
      case Blame::kNotEntered:
        return "has not entered " + (call.empty() ? std::string("the call") : call);
      case Blame::kCycle:
        return "waits in a cycle of ranks that wait for each other";
      case Blame::kLate:
        return "is late in " + (call.empty() ? std::string("the call") : call);
      case Blame::kElsewhere:
        return "is on another host, which was not asked";
      case Blame::kAlike:
        return "";
    }
    return "";
  }

  const JobView& view_;
  const double long_wait_;
  std::map<Place, const RankView*> ranks_;
  std::map<Place, Blame> blames_;
  std::set<std::size_t> mismatched_;  // communicators
};

}  // namespace

std::string_view name_of(Blame::Kind kind) {
  constexpr std::string_view kNames[] = {"ended",      "stopped", "silent",     "left",
                                         "not_joined", "fault",   "other_call", "not_entered",
                                         "cycle",      "late",    "elsewhere",  "alike"};
  return kNames[kind];
}

std::vector<Blame> diagnose(const JobView& view, double long_wait) {
  return ChainsOfWaits(view, long_wait).run();
}

}  // namespace rondo
