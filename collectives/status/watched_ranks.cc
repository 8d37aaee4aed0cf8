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
#include "transport/bootstrap/rendezvous.h"

namespace rondo {
namespace {

using A = HostAtomics;

// The thread of a watched process publishes its waits ten times a second.
constexpr std::int64_t kWatchedWaitsStill = 1'000'000'000;
constexpr std::uint64_t kCallsBefore = 6, kCallsAfter = 2;  // of those that are compared

const char* name_of(int phase) {
  constexpr const char* kNames[] = {"", "idle", "entered", "enqueued", "in_kernel", "unseen"};
  return phase >= shm::kNotWatched && phase <= shm::kUnseen ? kNames[phase] : "";
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
  } else if (watched.phase == "unseen") {
    text = fmt::format("enqueued {}; NCCL does not tell when it ends", call(at));
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

using Partners = std::map<int, WatchedView::Messages>;

// With which it has messages in kernels.
std::vector<int> partners_of(const Partners& messages) {
  std::vector<int> ranks;
  for (const auto& [rank, counts] : messages)
    if (counts.sends() || counts.receives()) ranks.push_back(rank);
  return ranks;
}

Partners partners_in(const shm::WatchedMessages& words, int size) {
  Partners partners;
  for (int rank = 0; rank < std::min(size, shm::WatchedMessages::kRanks); ++rank) {
    const auto& sends = words.sends[rank];
    const auto& receives = words.receives[rank];
    const WatchedView::Messages counts{A::load_acquire(sends.begun), A::load_acquire(sends.ended),
                                       A::load_acquire(receives.begun),
                                       A::load_acquire(receives.ended)};
    if (counts.sends_begun != 0 || counts.receives_begun != 0 || counts.sends() ||
        counts.receives())
      partners[rank] = counts;
  }
  return partners;
}

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
  return point_of(other) < call || (other.watched->phase != "in_kernel" && !is_unseen(other));
}

// Finds for whom ranks in messages wait. Messages of one kernel end together, so a rank may wait
// for any of its partners there. A partner has its part of a message once as many have begun at
// both: they are counted modulo 256, and nobody is as far ahead. Of MPI's messages those count that
// are under way. One partner may have taken its part and left: who does not wait comes first.
class Messages {
 public:
  explicit Messages(CommunicatorView& communicator) {
    for (RankView& rank : communicator.ranks) {
      ranks_[rank.rank] = &rank;
      if (rank.watched && rank.in_kernel && rank.in_message) waiting_.push_back(&rank);
    }
    std::erase_if(waiting_, [](const RankView* rank) {
      return partners_of(rank->watched->messages).empty();
    });
  }

  void await() {
    for (RankView* const rank : waiting_) rank->waits_for = missing(*rank);
    for (bool found = true; found;) {
      found = false;
      for (RankView* const rank : waiting_) {
        if (rank->waits_for >= 0) continue;
        rank->waits_for = held_up(*rank);
        found |= rank->waits_for >= 0;
      }
    }
    for (RankView* const rank : waiting_) rank->doing = wait_text(*rank);
  }

 private:
  const RankView* find(int rank) const {
    const auto at = ranks_.find(rank);
    return at == ranks_.end() ? nullptr : at->second;
  }
  // A partner without its part of a message: one that is gone, or else does not wait itself, first;
  // -1: none.
  int missing(const RankView& rank) const {
    int found = -1;
    bool found_waits = false;
    for (const int partner : partners_of(rank.watched->messages)) {
      const RankView* const other = find(partner);
      if (has_its_part(other, rank)) continue;
      if (other != nullptr && is_gone(*other)) return partner;
      const bool waits = other != nullptr && other->in_kernel;
      if (found >= 0 && (waits || !found_waits)) continue;
      found = partner;
      found_waits = waits;
    }
    return found;
  }
  static bool has_its_part(const RankView* other, const RankView& rank) {
    if (other == nullptr || !other->watched) return false;
    const WatchedView::Messages& own = rank.watched->messages.at(other->rank);
    const auto found = other->watched->messages.find(rank.rank);
    const WatchedView::Messages theirs =
        found == other->watched->messages.end() ? WatchedView::Messages() : found->second;
    const auto is_as_far = [](std::uint8_t a, std::uint8_t b) {
      return static_cast<std::int8_t>(static_cast<std::uint8_t>(a - b)) >= 0;
    };
    return (!own.sends() || is_as_far(theirs.receives_begun, own.sends_begun)) &&
           (!own.receives() || is_as_far(theirs.sends_begun, own.receives_begun));
  }
  // A partner that itself waits, so that the kernel of both does not end; -1: none.
  int held_up(const RankView& rank) const {
    for (const int partner : partners_of(rank.watched->messages))
      if (const RankView* const other = find(partner);
          other != nullptr && other->in_kernel && other->waits_for >= 0)
        return partner;
    return -1;
  }

  std::map<int, RankView*> ranks_;
  std::vector<RankView*> waiting_;
};

}  // namespace

void show_watched(const RankWordsView& words, const RankReport& report, RankView* view) {
  const shm::ActivityLine::Device& line = words.activity->device;
  const std::int32_t phase = A::load_acquire(line.phase);
  if (phase == shm::kNotWatched) return;
  WatchedView& watched = view->watched.emplace();
  watched.phase = name_of(phase);
  watched.network_peer = A::load_relaxed(line.network_peer);
  watched.network_step = A::load_relaxed(line.network_step);
  const std::uint64_t at = point_of(*view);
  for (std::uint64_t number = at > kCallsBefore ? at - kCallsBefore : 1;
       number <= std::min(at + kCallsAfter, view->call); ++number)
    if (std::string text = call_text(words.port, number); !text.empty())
      watched.calls[number] = std::move(text);
  const std::int64_t seen = A::load_acquire(line.wait_seen_ns);
  const std::int64_t began = A::load_relaxed(line.wait_began_ns);
  if (words.messages != nullptr) {
    watched.messages = partners_in(*words.messages, words.port.identity->size);
    watched.order = A::load_relaxed(words.messages->order);
    watched.has_graphs = A::load_relaxed(words.messages->has_graphs) != 0;
  }
  const bool waits_now =
      report.condition == RankReport::kRunning && now_ns() - seen < kWatchedWaitsStill;
  const double seconds = static_cast<double>(std::max<std::int64_t>(seen - began, 0)) / 1e9;
  if (waits_now && phase == shm::kUnseen) watched.unseen_seconds = seconds;
  if (waits_now && phase == shm::kInKernel) {
    const CallRecord record = load_record(line.call);
    view->in_kernel = true;
    view->in_message = is_message(record);
    view->waits_for = A::load_relaxed(line.waiting_for);
    view->waits_seconds = seconds;
    view->waits_in = to_string(record);
    const std::vector<int> partners = partners_of(watched.messages);
    if (view->in_message && partners.size() > 1)
      view->waits_in = "a group of messages with " + bootstrap::name_ranks(partners);
    view->doing = wait_text(*view);
  } else {
    view->doing = doing_of(*view);
    if (report.condition == RankReport::kStopped) view->doing += ", stopped";
    if (report.condition == RankReport::kEnded) view->doing += ", ended";
  }
  if (report.state == kLeft) view->doing += ", left the communicator";
}

bool is_before(const RankView& first, const RankView& second) {
  if (!first.watched || !second.watched) return false;
  const std::uint64_t a = first.watched->order, b = second.watched->order;
  return a == 0 || b == 0 || a < b;
}

bool is_unseen(const RankView& rank) { return rank.watched && rank.watched->phase == "unseen"; }

bool is_enqueued(const RankView& rank) { return rank.watched && rank.watched->phase == "enqueued"; }

std::uint64_t point_of(const RankView& rank) { return std::min(rank.finished + 1, rank.call); }

std::string instead_of(const RankView& rank) {
  if (!rank.watched) return "";
  if (is_stuck(rank))
    return rank.watched->network_peer < 0 ? " (its kernel has not ended)"
                                          : fmt::format(" ({})", network_text(rank));
  if (is_enqueued(rank)) return " (its kernel has not begun)";
  const auto newest = rank.watched->calls.find(rank.call);
  return newest == rank.watched->calls.end()
             ? ""
             : fmt::format(" (newest: call {}, {})", newest->first, newest->second);
}

// A call that is not seen to end waits only if another rank has not come to it: it may have ended.
static void show_unseen_wait(RankView* rank) {
  rank->in_kernel = true;
  rank->waits_seconds = rank->watched->unseen_seconds;
  const auto call = rank->watched->calls.find(point_of(*rank));
  if (call != rank->watched->calls.end()) rank->waits_in = call->second;
}

void await_watched(CommunicatorView* communicator) {
  if (!is_watched(*communicator)) return;
  for (RankView& rank : communicator->ranks) {
    if (!rank.watched || !(waits(rank) || is_unseen(rank))) continue;
    const RankView* least = nullptr;
    for (const RankView& other : communicator->ranks)
      if (holds_up(other, rank) && (least == nullptr || progress_of(other) < progress_of(*least)))
        least = &other;
    if (is_unseen(rank) && (least == nullptr || rank.watched->unseen_seconds == 0)) continue;
    if (is_unseen(rank)) show_unseen_wait(&rank);
    rank.waits_for = least != nullptr ? least->rank : -1;
    rank.doing = wait_text(rank);
  }
  Messages(*communicator).await();
}

std::vector<OtherCall> other_calls(const CommunicatorView& communicator) {
  std::map<std::uint64_t, std::map<std::string, std::vector<int>>> made;  // by call and text
  for (const RankView& rank : communicator.ranks)
    if (rank.watched && rank.watched->has_graphs) return {};
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

bool is_stuck(const RankView& rank) {
  return rank.watched && waits(rank) && !is_unseen(rank) && rank.waits_for < 0;
}

AlikeWait alike_wait(const CommunicatorView& communicator) {
  AlikeWait alike;
  std::vector<const RankView*> stuck;
  const RankView* slowest = nullptr;  // in the network
  for (const RankView& rank : communicator.ranks) {
    if (!rank.watched || !waits(rank) || is_unseen(rank)) continue;
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
