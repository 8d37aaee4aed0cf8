// Mailbox: requests that end without their message: cancelled, aborted, their peer gone.
#include <algorithm>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/host/mailbox.h"
#include "collectives/watchdog/peer_words.h"

namespace rondo {
namespace {

constexpr std::int64_t kLookPeriod = 50'000'000;  // ns
constexpr std::size_t kListedMessages = 8;

}  // namespace

std::string Mailbox::what_has_come(int from) const {
  std::string list;
  std::size_t count = 0;
  for (const Arrival& arrival : unexpected_) {
    if (arrival.claimed || (from != kAnySource && arrival.from.peer != from)) continue;
    if (++count <= kListedMessages)
      list += fmt::format("{}{} bytes with tag {} from rank {}", list.empty() ? "" : ", ",
                          arrival.bytes, arrival.from.tag, arrival.from.peer);
  }
  if (count == 0) return "nothing else has come from it";
  return fmt::format("what has come: {}{}", list, count > kListedMessages ? ", ..." : "");
}

void Mailbox::cancel(const Completion* request, double waited) {
  std::lock_guard lock(mutex_);
  (void)or_end([&] { return cancel_locked(request, waited), done(); }).ok();
}

void Mailbox::cancel_locked(const Completion* request, double waited) {
  const auto late = [&](std::string text) { return fail(Status::kTimeout, "{}", text); };
  const auto is_it = [&](const auto& each) { return each.request.get() == request; };

  if (auto it = std::find_if(posted_.begin(), posted_.end(), is_it); it != posted_.end()) {
    const int peer = it->from.peer;
    const std::string whom = peer == kAnySource ? "any rank" : state_.members.name_of(peer);
    it->request->finish(late(fmt::format(
        "rank {} waited {:.3g} s to receive {} bytes with tag {} from {}; {}", state_.members.rank,
        waited, it->bytes, it->from.tag, whom, what_has_come(peer))));
    posted_.erase(it);
    return;
  }
  for (int r = 0; r < state_.members.size; ++r) {
    Peer& peer = peers_[r];
    for (auto it = peer.offered.begin(); it != peer.offered.end(); ++it) {
      if (!is_it(it->second)) continue;
      const auto both = std::find_if(
          unexpected_.begin(), unexpected_.end(),
          [&](const Arrival& arrival) { return arrival.id != 0 && arrival.from.peer == r; });
      std::string why = "which has not received it";
      if (both != unexpected_.end())
        why = fmt::format(
            "which itself sends {} bytes with tag {} to rank {}: each waits for the other to "
            "receive; let one of them receive first, or use isend",
            both->bytes, both->from.tag, state_.members.rank);
      it->second.request->finish(late(fmt::format(
          "rank {} waited {:.3g} s to send {} bytes with tag {} to {}, {}", state_.members.rank,
          waited, it->second.bytes, it->second.to.tag, state_.members.name_of(r), why)));
      peer.offered.erase(it);
      return;
    }
    for (auto it = peer.granted.begin(); it != peer.granted.end(); ++it) {
      if (!is_it(it->second)) continue;
      it->second.request->finish(
          late(fmt::format("rank {} waited {:.3g} s for {} bytes with tag {} that {} is sending",
                           state_.members.rank, waited, it->second.bytes, it->second.from.tag,
                           state_.members.name_of(r))));
      peer.granted.erase(it);
      return;
    }
    const std::string broken = fmt::format("rank {} waited {:.3g} s in a message with {}",
                                           state_.members.rank, waited, state_.members.name_of(r));
    if (peer.incoming && is_it(*peer.incoming)) {
      peer.incoming->request->finish(late(broken));
      peer.incoming->request = nullptr;
      peer.incoming->out = nullptr;  // the rest is dropped
      return;
    }
    if (std::any_of(peer.out.begin(), peer.out.end(), is_it)) return fail_peer(r, broken);
  }
  for (Arrival& arrival : unexpected_) {
    if (!arrival.claimed || !is_it(*arrival.claimed)) continue;
    arrival.claimed->request->finish(late(fmt::format("rank {} waited {:.3g} s for {} bytes",
                                                      state_.members.rank, waited, arrival.bytes)));
    arrival.claimed->request = nullptr;
    return;
  }
}

void Mailbox::abort(const Error& error) {
  std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_ = copy_of(error);
  (void)or_end([&] { return fail_all(error), done(); }).ok();
}

void Mailbox::end_all(const Error& error) {
  if (!aborted_) aborted_ = copy_of(error);
  const auto end = [&](const Request& request) {
    if (request) request->finish(copy_of(error));
  };
  for (Peer& peer : peers_) {
    for (Sending& each : peer.out) end(each.request);
    for (auto& [id, each] : peer.offered) end(each.request);
    for (auto& [id, each] : peer.granted) end(each.request);
    if (peer.incoming) end(peer.incoming->request);
    peer.out.clear();
    peer.offered.clear();
    peer.granted.clear();
    peer.incoming.reset();
  }
  for (Receive& each : posted_) end(each.request);
  for (Arrival& each : unexpected_)
    if (each.claimed) end(each.claimed->request);
  posted_.clear();
  unexpected_.clear();
  (void)guarded("messages", [&] {
    state_.faults.raise(
        state_.faults.make(error.status, state_.members.rank,
                           fmt::format("{} had to end its messages: {}",
                                       state_.members.name_of(state_.members.rank), error.text)));
    return done();
  }).ok();
}

void Mailbox::fail_all(const Error& error) {
  for (int r = 0; r < state_.members.size; ++r) fail_peer(r, error.text);
  for (Receive& receive : posted_) receive.request->finish(error);
  posted_.clear();
}

void Mailbox::fail_peer(int rank, const std::string& how) {
  Peer& peer = peers_[rank];
  peer.ended = how;
  const auto end = [&](const Request& request, const char* verb, const Envelope& envelope,
                       std::size_t bytes) {
    if (request == nullptr) return;
    request->finish(fail(Status::kRemoteError, "{}; rank {} {} {} bytes with tag {}", how,
                         state_.members.rank, verb, bytes, envelope.tag));
  };
  for (Sending& each : peer.out) end(each.request, "sends it", each.to, each.bytes);
  for (auto& [id, each] : peer.offered) end(each.request, "sends it", each.to, each.bytes);
  for (auto& [id, each] : peer.granted)
    end(each.request, "receives from it", each.from, each.bytes);
  peer.out.clear();
  peer.offered.clear();
  peer.granted.clear();
  if (peer.incoming) {
    if (peer.incoming->request)
      peer.incoming->request->finish(fail(Status::kRemoteError, "{}, in a message", how));
    peer.incoming.reset();
  }
  for (Arrival& arrival : unexpected_)
    if (arrival.claimed && arrival.from.peer == rank)
      end(arrival.claimed->request, "receives from it", arrival.from, arrival.bytes);
  unexpected_.remove_if(
      [&](const Arrival& arrival) { return arrival.from.peer == rank && !arrival.complete; });
  const bool nobody = std::all_of(peers_.begin(), peers_.end(), [&](const Peer& each) {
    return each.ended || &each == &peers_[state_.members.rank];
  });
  for (auto it = posted_.begin(); it != posted_.end();) {
    const bool needs = it->from.peer == rank || (it->from.peer == kAnySource && nobody);
    if (needs) end(it->request, "receives from it", it->from, it->bytes);
    it = needs ? posted_.erase(it) : std::next(it);
  }
}

std::uint64_t Mailbox::memory_bytes() {
  std::lock_guard lock(mutex_);
  std::uint64_t bytes = own_->memory().total();
  for (const Arrival& arrival : unexpected_) bytes += arrival.data.size();
  for (const Peer& peer : peers_) {
    for (const Sending& sending : peer.out) bytes += sending.own.size();
    for (const auto& [id, sending] : peer.offered) bytes += sending.own.size();
  }
  return bytes;
}

bool Mailbox::has_left(int rank) const {
  const int local = state_.members.local_of(rank);
  if (local < 0) return !state_.remote.links()->error_of(rank).ok();
  if (HostAtomics::load_acquire(state_.host.peers[local].progress->state) == kLeft) return true;
  return !state_.host.peers[local].same_process && has_ended(state_.members.process_of(local));
}

// Twice in a row: what it had sent before has been taken by then.
void Mailbox::look_for_ended() {
  const std::int64_t now = now_ns();
  if (aborted_ || now - last_look_ns_ < kLookPeriod) return;
  last_look_ns_ = now;
  if (state_.faults.is_raised() || state_.faults.adopt_from_peers()) {
    const Error error = state_.faults.error();
    aborted_ = error;
    return fail_all(error);
  }
  for (int r = 0; r < state_.members.size; ++r) {
    Peer& peer = peers_[r];
    if (r == state_.members.rank || peer.ended || !has_left(r)) continue;
    if (peer.looks_ended) fail_peer(r, fmt::format("{} has ended", state_.members.name_of(r)));
    peer.looks_ended = true;
  }
}

}  // namespace rondo
