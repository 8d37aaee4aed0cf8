// Announcer: how a rank makes its call known, and how it learns of its peers' calls.
//
// Guarantees: an announcement is written before any data of the call moves; a peer's announcement
// is compared with this rank's own, whole, the first time that the call waits for it, so no rank
// completes a call that another one made differently. A rank is at most depth - 1 calls ahead of
// the slowest. Cost: one line written per call, one line read per peer.
#pragma once

#include <cstring>

#include "kernels/host/host_rank.h"

namespace rondo::host {

template <class A = DoorbellAtomics, std::uint64_t depth = kAnnounceDepth>
class BasicAnnouncer {
 public:
  BasicAnnouncer(BasicHostRank<A>& rank, const CallRecord& record) : rank_(rank), record_(record) {
    sequence_ = ++rank_.sequence;
  }

  bool failed() const { return failed_; }
  void fail() { failed_ = true; }
  std::uint64_t sequence() const { return sequence_; }

  // The line of this call: the payload may be filled before publish_line().
  AnnounceLine& own_line() { return line_of(rank_.rank); }
  const AnnounceLine& line_of_peer(int peer) { return line_of(peer); }

  // Waits until the line may be overwritten: every peer has entered the call depth - 1 ago.
  void reserve_line() {
    if (sequence_ < depth) return;
    const std::uint64_t needed = sequence_ - depth + 1;
    for (int r = 0; r < rank_.size && !failed_; ++r) {
      if (r == rank_.rank || rank_.known_sequence[r] >= needed) continue;
      const std::uint64_t& word = rank_.peers[r].steps->sequence;
      wait([&] { return A::load_acquire(word) >= needed; }, r);
    }
  }

  // Makes the call known, with what the caller exposes.
  void publish_line(std::uint32_t exposure) {
    if (failed_) return;
    AnnounceLine& line = own_line();
    A::store_plain(line.record, record_);
    A::store_plain(line.exposure, exposure);
    StepLine& steps = *rank_.self().steps;
    A::store_release(steps.step, rank_.step);
    A::store_release(steps.sequence, sequence_);
    A::store_seq_cst(line.sequence, sequence_);
    ring_peers();
  }

  void publish_step() {
    if (failed_) return;
    A::store_seq_cst(rank_.self().steps->step, rank_.step);
    ring_peers();
  }

  // Waits for the peer's announcement of this very call and compares it.
  bool wait_line(int peer) {
    if (failed_) return false;
    if (rank_.known_sequence[peer] >= sequence_) return true;
    const AnnounceLine& line = line_of(peer);
    wait([&] { return A::load_acquire(line.sequence) >= sequence_; }, peer);
    if (failed_) return false;
    const CallRecord theirs = A::load_plain(line.record);
    if (!(theirs == record_)) {
      failed_ = true;
      rank_.on_mismatch(rank_.owner, rank_.global[peer], theirs);
      return false;
    }
    rank_.known_sequence[peer] = sequence_;
    rank_.exposure[peer] = A::load_plain(line.exposure);
    return true;
  }

  // Waits until the peer has taken `step` steps in all.
  bool wait_step(int peer, std::uint64_t step) {
    if (failed_) return false;
    if (rank_.known_step[peer] >= step) return true;
    const std::uint64_t& word = rank_.peers[peer].steps->step;
    std::uint64_t seen = 0;
    wait([&] { return (seen = A::load_acquire(word)) >= step; }, peer);
    if (!failed_) rank_.known_step[peer] = seen;
    return !failed_;
  }

 private:
  AnnounceLine& line_of(int r) { return rank_.peers[r].announcements[sequence_ % depth]; }
  template <class Ready>
  void wait(Ready&& ready, int peer) {
    if (!rank_.waiter.until(ready, {peer, rank_.step})) failed_ = true;
  }
  void ring_peers() {
    for (int r = 0; r < rank_.size; ++r)
      if (r != rank_.rank) ring_if_parked<A>(*rank_.peers[r].parked, *rank_.peers[r].bell);
  }

  BasicHostRank<A>& rank_;
  CallRecord record_;
  std::uint64_t sequence_;
  bool failed_ = false;
};

using Announcer = BasicAnnouncer<>;

}  // namespace rondo::host
