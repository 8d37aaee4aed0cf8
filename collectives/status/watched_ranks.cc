// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/watched_ranks.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "base/seconds.h"
#include "collectives/faults/peer_words.h"

namespace rondo {
namespace {

using A = HostAtomics;

// The thread of a watched process publishes its waits ten times a second.
constexpr std::int64_t kWatchedWaitsStill = 1'000'000'000;
constexpr std::uint64_t kCallsBefore = 6, kCallsAfter = 2;  // of those that are compared

const char* name_of(int phase) {
  constexpr const char* kNames[] = {"", "idle", "entered", "enqueued", "in_kernel"};
  return phase >= shm::kNotWatched && phase <= shm::kInKernel ? kNames[phase] : "";
}

// "": the ring no longer holds it.
std::string call_text(const PeerPort& words, std::uint64_t number) {
  const RankReport then = report_of(words, words.identity->rank, number);
  return then.shown == number ? to_string(then.announced) : "";
}

std::string doing_of(const RankView& view) {
  const WatchedView& watched = *view.watched;
  const auto call = [&](std::uint64_t number) {
    const auto found = watched.calls.find(number);
    return fmt::format("call {}{}", number,
                       found == watched.calls.end() ? "" : ", " + found->second);
  };
  const std::uint64_t at = point_of(view);
  std::string text;
  if (view.in_message) {
    text = "in " + view.waits_in;
  } else if (at == 0) {
    text = "no collective yet";
  } else if (view.finished >= at) {
    text = "finished " + call(at);
  } else if (watched.phase == "in_kernel") {
    text = "in " + call(at);
  } else {
    text = fmt::format("in {}, {}", call(at),
                       watched.phase == "enqueued" ? "its kernel has not begun" : "not enqueued");
  }
  if (view.call > at) text += fmt::format(", {} enqueued behind it", view.call - at);
  return text;
}

std::string wait_text(const RankView& rank) {
  const std::string awaited =
      rank.waits_for < 0 ? "waits" : fmt::format("waits for rank {}", rank.waits_for);
  return fmt::format("{}, {}, for {:.1f} s", doing_of(rank), awaited, rank.waits_seconds);
}

bool is_watched(const CommunicatorView& communicator) {
  return std::any_of(communicator.ranks.begin(), communicator.ranks.end(),
                     [](const RankView& rank) { return rank.watched.has_value(); });
}

bool is_gone(const RankView& rank) {
  return rank.state == "ended" || rank.state == "stopped" || rank.state == "left" ||
         rank.state == "silent";
}

std::string network_text(const RankView& rank) {
  return fmt::format("the network of rank {} waits for step {} of data from rank {}", rank.rank,
                     rank.watched->network_step, rank.watched->network_peer);
}

bool waits(const RankView& rank) { return rank.in_kernel && !rank.in_message; }

// Smaller: less far. A rank that is gone comes first.
std::tuple<bool, std::uint64_t, std::uint64_t, bool, int> progress_of(const RankView& rank) {
  return {!is_gone(rank), rank.finished, point_of(rank),
          rank.watched && rank.watched->phase == "in_kernel", rank.rank};
}

// True if the kernel of `waiter` needs what `other` has not done.
bool holds_up(const RankView& other, const RankView& waiter) {
  const std::uint64_t call = point_of(waiter);
  if (other.rank == waiter.rank || other.rank < 0 || other.finished >= call) return false;
  if (is_gone(other) || !other.watched) return true;
  return point_of(other) < call || other.watched->phase != "in_kernel";
}

}  // namespace

void show_watched(const PeerPort& words, const shm::ActivityLine& activity,
                  const RankReport& report, RankView* view) {
  const shm::ActivityLine::Device& line = activity.device;
  const std::int32_t phase = A::load_acquire(line.phase);
  if (phase == shm::kNotWatched) return;
  WatchedView& watched = view->watched.emplace();
  watched.phase = name_of(phase);
  watched.network_peer = A::load_relaxed(line.network_peer);
  watched.network_step = A::load_relaxed(line.network_step);
  const std::uint64_t at = point_of(*view);
  for (std::uint64_t number = at > kCallsBefore ? at - kCallsBefore : 1;
       number <= std::min(at + kCallsAfter, view->call); ++number)
    if (std::string text = call_text(words, number); !text.empty())
      watched.calls[number] = std::move(text);
  const std::int64_t seen = A::load_acquire(line.wait_seen_ns);
  const std::int64_t began = A::load_relaxed(line.wait_began_ns);
  const bool waits_now =
      report.condition == RankReport::kRunning && now_ns() - seen < kWatchedWaitsStill;
  if (waits_now) {
    const CallRecord record = load_record(line.call);
    view->in_kernel = true;
    view->in_message = is_message(record);
    view->waits_for = A::load_relaxed(line.waiting_for);
    view->waits_seconds = static_cast<double>(std::max<std::int64_t>(seen - began, 0)) / 1e9;
    view->waits_in = to_string(record);
    view->doing = wait_text(*view);
  } else {
    view->doing = doing_of(*view);
    if (report.condition == RankReport::kStopped) view->doing += ", stopped";
    if (report.condition == RankReport::kEnded) view->doing += ", ended";
  }
  if (report.state == kLeft) view->doing += ", left the communicator";
}

std::uint64_t point_of(const RankView& rank) { return std::min(rank.finished + 1, rank.call); }

std::string instead_of(const RankView& rank) {
  if (!rank.watched) return "";
  if (is_stuck(rank))
    return rank.watched->network_peer < 0 ? " (its kernel has not ended)"
                                          : fmt::format(" ({})", network_text(rank));
  if (rank.watched->phase == "enqueued") return " (its kernel has not begun)";
  const auto newest = rank.watched->calls.find(rank.call);
  return newest == rank.watched->calls.end()
             ? ""
             : fmt::format(" (newest: call {}, {})", newest->first, newest->second);
}

void await_watched(CommunicatorView* communicator) {
  if (!is_watched(*communicator)) return;
  for (RankView& rank : communicator->ranks) {
    if (!rank.watched || !waits(rank)) continue;
    const RankView* least = nullptr;
    for (const RankView& other : communicator->ranks)
      if (holds_up(other, rank) && (least == nullptr || progress_of(other) < progress_of(*least)))
        least = &other;
    rank.waits_for = least != nullptr ? least->rank : -1;
    rank.doing = wait_text(rank);
  }
}

std::vector<OtherCall> other_calls(const CommunicatorView& communicator) {
  std::map<std::uint64_t, std::map<std::string, std::vector<int>>> made;  // by call and text
  for (const RankView& rank : communicator.ranks)
    if (rank.watched)
      for (const auto& [number, text] : rank.watched->calls)
        made[number][text].push_back(rank.rank);
  for (const auto& [number, texts] : made) {
    if (texts.size() < 2) continue;
    const auto largest = std::max_element(
        texts.begin(), texts.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto with_largest = std::count_if(texts.begin(), texts.end(), [&](const auto& one) {
      return one.second.size() == largest->second.size();
    });
    std::vector<OtherCall> others;
    for (const auto& [text, ranks] : texts) {
      if (with_largest == 1 && text == largest->first) continue;
      const auto& against = text == largest->first ? *std::next(texts.begin()) : *largest;
      for (const int rank : ranks)
        others.push_back(
            {rank, fmt::format("made {} as call {}, where {} made {}", text, number,
                               counted(against.second.size(), "rank"), against.first)});
    }
    return others;
  }
  return {};
}

bool is_stuck(const RankView& rank) { return rank.watched && waits(rank) && rank.waits_for < 0; }

AlikeWait alike_wait(const CommunicatorView& communicator) {
  AlikeWait alike;
  std::vector<const RankView*> stuck;
  const RankView* slowest = nullptr;  // in the network
  for (const RankView& rank : communicator.ranks) {
    if (!rank.watched || !waits(rank)) continue;
    ++alike.waiters;
    if (!is_stuck(rank)) continue;
    alike.seconds =
        stuck.empty() ? rank.waits_seconds : std::min(alike.seconds, rank.waits_seconds);
    stuck.push_back(&rank);
    if (rank.watched->network_peer >= 0 &&
        (slowest == nullptr || rank.watched->network_step < slowest->watched->network_step))
      slowest = &rank;
  }
  const std::size_t known = communicator.ranks.size();
  alike.is_complete = known == static_cast<std::size_t>(communicator.size);
  if (stuck.empty() || (alike.is_complete && stuck.size() < 2)) return {};
  if (!alike.is_complete && stuck.size() < known) return {};
  const std::string where =
      fmt::format("call {}, {}", point_of(*stuck.front()), stuck.front()->waits_in);
  if (!alike.is_complete) {
    alike.text = fmt::format(
        "all {} that are known wait in {}; the other {} of the communicator did not answer or are "
        "on hosts that were not asked",
        counted(known, "rank"), where, static_cast<std::size_t>(communicator.size) - known);
    return alike;
  }
  alike.text = stuck.size() == known
                   ? fmt::format("all {} wait alike in {}", counted(known, "rank"), where)
                   : fmt::format("{} of {} wait alike in {}, which the others have ended",
                                 stuck.size(), counted(known, "rank"), where);
  alike.text += ": no rank is late";
  if (slowest != nullptr) alike.text += "; " + network_text(*slowest);
  return alike;
}

void find_awaited(JobView* view) {
  assert(view != nullptr);
  for (CommunicatorView& communicator : view->communicators) {
    await_watched(&communicator);
    const auto least =
        std::min_element(communicator.ranks.begin(), communicator.ranks.end(),
                         [](const RankView& a, const RankView& b) { return a.call < b.call; });
    for (RankView& rank : communicator.ranks) {
      if (!rank.in_kernel || rank.watched || rank.waits_for >= 0 || least->call >= rank.call)
        continue;
      rank.waits_for = least->rank;
      rank.doing = kernel_wait_text(rank);
    }
  }
}

}  // namespace rondo
