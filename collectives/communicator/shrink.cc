// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/shrink.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>

#include "collectives/communicator/communicator_state.h"
#include "collectives/communicator/listener_watch.h"
#include "collectives/communicator/remote_lists.h"
#include "collectives/faults/peer_words.h"
#include "transport/bootstrap/rendezvous.h"

namespace rondo {
namespace {

using Obstacle = bootstrap::Survivors::Obstacle;

constexpr std::string_view kHasEnded = "has ended: leave it out, too (rondoCommGetEnded)";

// Together as long as bootstrap::Rendezvous waits before two lists are an error.
constexpr std::chrono::milliseconds kLookPeriod{50};
constexpr int kLooks = 40;
constexpr std::chrono::milliseconds kSlow{500};
constexpr std::size_t kMaxWatched = 16;  // except by the leader

// Shows whom this rank meets, and finds out why they cannot.
class Gathering {
 public:
  Gathering(CommunicatorState& state, const std::vector<int>& survivors)
      : state_(state),
        survivors_(survivors),
        digest_(bootstrap::digest_of(survivors)),
        remote_(state, survivors) {
    assert(std::is_sorted(survivors_.begin(), survivors_.end()));
    assert(std::binary_search(survivors_.begin(), survivors_.end(), state_.members.rank));
    show(digest_);
    watch(survivors_[0] == state_.members.rank ? survivors_.size() : 1);
  }
  ~Gathering() { show(0); }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  // "rank 1 leaves out ranks 2, 3"
  std::string claim() const {
    std::vector<int> excluded;
    for (int rank = 0; rank < state_.members.size; ++rank)
      if (!std::binary_search(survivors_.begin(), survivors_.end(), rank)) excluded.push_back(rank);
    const std::string left = excluded.empty() ? "no rank" : bootstrap::name_ranks(excluded);
    return fmt::format("rank {} leaves out {}", state_.members.rank, left);
  }

  std::optional<Obstacle> obstacle() {
    for (const int rank : survivors_) {
      const int local = state_.members.local_of(rank);
      if (rank == state_.members.rank || local < 0) continue;
      if (has_ended(state_.members.process_of(local))) return Obstacle{gone(rank, kHasEnded), rank};
      if (HostAtomics::load_acquire(state_.host.peers[local].progress->state) == kLeft)
        return Obstacle{gone(rank, "has destroyed the communicator: leave it out, too")};
    }
    if (const int rank = in_conflict(); rank >= 0)
      return Obstacle{fail(StatusCode::kInvalidUsage,
                           "{}, but rank {} leaves out others: all survivors must name the same "
                           "ranks (rondoCommGetEnded)",
                           claim(), rank)};
    if (is_slow()) {
      watch(kMaxWatched);
      remote_.step();
    }
    for (ListenerWatch& listener : listeners_) {
      if (!listener.has_ended()) continue;
      note_end(listener.rank());
      return Obstacle{gone(listener.rank(), kHasEnded), listener.rank()};
    }
    return std::nullopt;
  }

  void note_end(int rank) {
    const bool is_survivor = std::binary_search(survivors_.begin(), survivors_.end(), rank);
    if (!is_survivor || state_.members.local_of(rank) >= 0) return;
    std::lock_guard lock(state_.ended_mutex);
    state_.ended_elsewhere.insert(rank);
  }

  void end() {
    show(0);
    listeners_.clear();
  }

 private:
  // The others may leave out a rank of another host of whose end nobody has told this rank.
  bool is_slow() const { return std::chrono::steady_clock::now() - began_ > kSlow; }
  // Watches the survivors of other hosts among the first `count`.
  void watch(std::size_t count) {
    for (; watched_ < std::min(count, survivors_.size()); ++watched_) {
      const int rank = survivors_[watched_];
      if (state_.members.local_of(rank) < 0)
        listeners_.emplace_back(rank, state_.members.ranks[static_cast<std::size_t>(rank)].address);
    }
  }
  // A survivor that has named other ranks for a while, so that neither finds out by itself that its
  // list is old; -1: none.
  int in_conflict() {
    const auto now = std::chrono::steady_clock::now();
    if (now < look_at_) return -1;
    look_at_ = now + kLookPeriod;
    int found = -1;
    for (const int rank : survivors_) {
      const int local = state_.members.local_of(rank);
      const std::uint64_t theirs =
          local < 0 ? remote_.of(rank) : HostAtomics::load_acquire(word_of(local));
      if (theirs != 0 && theirs != digest_) found = rank;
    }
    looks_ = found < 0 ? 0 : looks_ + 1;
    return looks_ >= kLooks ? found : -1;
  }
  Error gone(int rank, std::string_view how) const {
    return fail(StatusCode::kRemoteError, "{} {}", state_.members.name_of(rank), how);
  }
  std::uint64_t& word_of(int local) const {
    return state_.members.group->segment->activity(local)->survivors;
  }
  void show(std::uint64_t digest) const {
    HostAtomics::store_release(word_of(state_.host.rank), digest);
  }

  CommunicatorState& state_;
  const std::vector<int>& survivors_;
  const std::uint64_t digest_;
  std::chrono::steady_clock::time_point look_at_{};
  int looks_ = 0;  // in a row that saw a conflict
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::size_t watched_ = 0;  // survivors
  std::vector<ListenerWatch> listeners_;
  RemoteLists remote_;
};

}  // namespace

Result<std::unique_ptr<CommunicatorState>> shrink_to(CommunicatorState& parent,
                                                     const std::vector<int>& survivors,
                                                     const CommOptions& options,
                                                     std::function<bool()> aborted) {
  Gathering gathering(parent, survivors);
  RONDO_TRY(CreateRequest request, survivors_request(parent, survivors));
  request.options = options;
  request.options.device = parent.options.device;
  request.aborted = std::move(aborted);
  request.survivors = bootstrap::Survivors{.members = survivors,
                                           .claim = gathering.claim(),
                                           .obstacle = [&] { return gathering.obstacle(); },
                                           .on_ended = [&](int rank) { gathering.note_end(rank); },
                                           .on_joined = [&] { gathering.end(); }};
  auto made = make_state(request);
  // A rank that gave up because another one is gone may close its connection before this rank has
  // looked for that other one.
  if (!made.ok() && made.code() == StatusCode::kRemoteError)
    if (auto gone = gathering.obstacle()) return std::move(gone->why);
  return made;
}

}  // namespace rondo
