// SPDX-License-Identifier: Apache-2.0
// Announcer: publishes a rank's call to its peers and compares their calls with it.
//
// Guarantees: an announcement is written before any data of the call moves. When a call first waits
// for a peer, it compares the peer's whole announcement with its own; the history in it covers all
// earlier calls. So no rank uses data of a call that its peer made with other arguments. Peers for
// which no call waits are compared in turn, by the rank that is behind. A rank is at most depth - 1
// calls ahead of the slowest.
// Cost: one line written per call, one line read per peer.
#pragma once

#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/host/host_rank.h"

namespace rondo::host {

template <class A = DoorbellAtomics, std::uint64_t depth = kAnnounceDepth>
class BasicAnnouncer {
 public:
  BasicAnnouncer(BasicHostRank<A>& rank, const CallRecord& record) : rank_(rank), record_(record) {
    assert(rank.rank >= 0 && rank.rank < rank.size);
    sequence_ = ++rank_.sequence;
    struct Halves {
      std::uint64_t first, second;
    };
    const auto halves = std::bit_cast<Halves>(record);
    rank_.history = mix(mix(rank_.history, halves.first), halves.second);
  }

  bool failed() const { return failed_; }
  void fail() { failed_ = true; }
  std::uint64_t sequence() const { return sequence_; }

  // The line of this call. Its payload may be filled before publish_line().
  AnnounceLine& own_line() { return line_of(rank_.rank); }
  AnnounceLine& line_of_peer(int peer) const { return line_of(peer); }

  // Memory for data of this call that does not fit into the line. Also filled before
  // publish_line().
  std::byte* own_beside() { return beside_of_peer(rank_.rank); }
  std::byte* beside_of_peer(int peer) {
    assert(peer >= 0 && peer < rank_.size);
    return rank_.peers[peer].beside[sequence_ % depth].payload;
  }

  // Waits until the line may be overwritten: every peer has entered the call that lies depth - 1
  // calls back.
  void reserve_line() {
    if (sequence_ % kCallsPerComparison == 0)
      for (int i = 0; i < rank_.size; i += kPeersPerComparison) compare_past();
    if (sequence_ < depth) return;
    const std::uint64_t needed = sequence_ - depth + 1;
    for (int r = 0; r < rank_.size && !failed_; ++r) {
      if (r == rank_.rank || rank_.known_sequence[r] >= needed || rank_.entered[r] >= needed)
        continue;
      const std::uint64_t& word = rank_.peers[r].steps->sequence;
      std::uint64_t seen = 0;
      wait([&] { return (seen = A::load_acquire(word)) >= needed; }, r);
      if (!failed_) rank_.entered[r] = seen;
    }
  }

  // Publishes the call, with the flags of what the caller exposes and wants.
  void publish_line(std::uint32_t flags) {
    if (failed_) return;
    AnnounceLine& line = own_line();
    A::store_plain(line.record, record_);
    A::store_plain(line.flags, flags);
    A::store_plain(line.history, static_cast<std::uint32_t>(rank_.history >> 32));
    announced_step_ = rank_.step;
    StepLine& steps = *rank_.self().steps;
    rank_.core.publish(rank_.peers, rank_.rank, sequence_);
    A::store_release(steps.step, rank_.step);
    rank_.owes_step = false;
    A::store_release(steps.sequence, sequence_);
    store_before_ring<A>(line.sequence, sequence_, rank_.light);
    ring_peers();
    // Peers have cached the next line since they read it in an earlier call. Fetch it for writing
    // while this call waits.
    A::prefetch_to_write(rank_.self().announcements[(sequence_ + 1) % depth].sequence);
    rank_.recorder.begin(record_, sequence_);  // here its cost hides in the wait for the peers
  }

  // Postpones a step that peers need only to reuse memory in a later call. It is published with
  // this rank's next announcement, or before its next wait if that is earlier. Saves one cache-line
  // invalidation.
  void owe_step() { rank_.owes_step = true; }

  void publish_step() {
    if (failed_) return;
    rank_.owes_step = false;
    store_before_ring<A>(rank_.self().steps->step, rank_.step, rank_.light);
    ring_peers();
  }

  // Waits for the peer's announcement of this call and compares it.
  bool wait_line(int peer) {
    assert(peer >= 0 && peer < rank_.size);
    if (failed_) return false;
    if (rank_.known_sequence[peer] >= sequence_) return true;
    const AnnounceLine& line = line_of(peer);
    wait([&] { return A::load_acquire(line.sequence) >= sequence_; }, peer);
    if (failed_) return false;
    const CallRecord theirs = A::load_plain(line.record);
    if (!(theirs == record_) ||
        A::load_plain(line.history) != static_cast<std::uint32_t>(rank_.history >> 32)) {
      mismatch(peer, record_, theirs);
      return false;
    }
    rank_.known_sequence[peer] = sequence_;
    // All ranks take the same steps, so the peer had taken as many as this rank when it announced.
    if (rank_.known_step[peer] < announced_step_) rank_.known_step[peer] = announced_step_;
    const std::uint32_t flags = A::load_plain(line.flags);
    rank_.exposure[peer] = flags & ~kWantsLargerRounds;
    if ((flags & kWantsLargerRounds) != 0) rank_.larger_rounds_call = sequence_;
    return true;
  }

  // Waits until the peer has taken `step` steps in total.
  bool wait_step(int peer, std::uint64_t step) {
    assert(peer >= 0 && peer < rank_.size);
    if (failed_) return false;
    if (rank_.known_step[peer] >= step) return true;
    const std::uint64_t& word = rank_.peers[peer].steps->step;
    std::uint64_t seen = 0;
    wait([&] { return (seen = A::load_acquire(word)) >= step; }, peer);
    if (!failed_) rank_.known_step[peer] = seen;
    return !failed_;
  }

 private:
  // A comparison fetches two lines that the peer writes in each call. So a rank compares in every
  // eighth call, and up to eight peers one after another.
  static constexpr std::uint64_t kCallsPerComparison = depth < 8 ? 1 : depth / 8;
  static constexpr int kPeersPerComparison = 8;

  static std::uint64_t mix(std::uint64_t state, std::uint64_t value) {
    state = (state ^ value) * 0x9e3779b97f4a7c15ULL;
    return state ^ (state >> 31);
  }

  AnnounceLine& line_of(int r) const { return rank_.peers[r].announcements[sequence_ % depth]; }

  void mismatch(int peer, const CallRecord& mine, const CallRecord& theirs) {
    if (failed_) return;
    failed_ = true;
    rank_.hooks.on_mismatch(rank_.hooks.owner, rank_.global[peer], mine, theirs, 0);
  }

  // Compares the previous call with the next peer in turn, if no call has waited for that peer.
  // Requires that the peer has entered that call: then its line does not change until this rank
  // announces the next call (reserve_line). Lines of earlier calls may change. If the peer is
  // behind, it makes the comparison itself.
  void compare_past() {
    const auto after = [&](int r) { return r + 1 == rank_.size ? 0 : r + 1; };
    int peer = rank_.next_compared;
    if (peer == rank_.rank) peer = after(peer);
    rank_.next_compared = after(peer);
    const std::uint64_t last = sequence_ - 1;
    if (peer == rank_.rank || rank_.known_sequence[peer] >= last) return;
    if (A::load_acquire(rank_.peers[peer].steps->sequence) < last) return;
    const AnnounceLine& theirs = rank_.peers[peer].announcements[last % depth];
    // The peer publishes steps->sequence before the line, because fault messages find calls by it.
    if (A::load_acquire(theirs.sequence) < last) return;
    const AnnounceLine& mine = rank_.self().announcements[last % depth];
    if (A::load_plain(theirs.history) != A::load_plain(mine.history)) {
      const CallRecord ours = A::load_plain(mine.record);
      return mismatch(peer, ours, ours);
    }
    rank_.known_sequence[peer] = last;
  }

  template <class Ready>
  void wait(Ready&& ready, int peer) {
    if (rank_.owes_step) publish_step();  // the awaited peer may wait for this step
    if (ready()) return;
    const bool wanted = rank_.core.is_wanted(rank_.peers, rank_.rank, peer);
    if (!rank_.waiter.until(ready, {.peer = peer, .step = rank_.step, .core_is_wanted = wanted}))
      failed_ = true;
  }
  void ring_peers() {
    for (int r = 0; r < rank_.size; ++r)
      if (r != rank_.rank)
        ring_if_parked<A>(*rank_.peers[r].parked, *rank_.peers[r].bell, rank_.light);
  }

  BasicHostRank<A>& rank_;
  CallRecord record_;
  std::uint64_t sequence_;
  std::uint64_t announced_step_ = 0;
  bool failed_ = false;
};

using Announcer = BasicAnnouncer<>;

}  // namespace rondo::host
