// SPDX-License-Identifier: Apache-2.0
#include "collectives/messages/message_queues.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/guard.h"
#include "base/log.h"
#include "base/seconds.h"
#include "collectives/faults/peer_words.h"

namespace rondo {
namespace {

constexpr std::int64_t kLookPeriod = 50'000'000;  // ns
constexpr std::size_t kListedMessages = 8;

}  // namespace

std::optional<MessageQueues::Receive> MessageQueues::match(const Envelope& from) {
  const auto found = std::find_if(posted.begin(), posted.end(), [&](const Receive& receive) {
    return receive.from.tag == from.tag &&
           (receive.from.peer == from.peer || receive.from.peer == kAnySource);
  });
  if (found == posted.end()) return std::nullopt;
  Receive receive = std::move(*found);
  posted.erase(found);
  return receive;
}

MessageQueues::Arrival* MessageQueues::find_arrival(const Envelope& wanted) {
  const auto found = std::find_if(unexpected.begin(), unexpected.end(), [&](const Arrival& each) {
    return !each.claimed && each.from.tag == wanted.tag &&
           (wanted.peer == kAnySource || each.from.peer == wanted.peer);
  });
  return found == unexpected.end() ? nullptr : &*found;
}

bool MessageQueues::fits(const Receive& receive, const Envelope& from, std::size_t bytes) {
  if (receive.bytes == bytes) return true;
  receive.request->finish(fail(StatusCode::kInvalidUsage,
                               "rank {} receives {} bytes with tag {} from rank {}, which sent {}",
                               members_.rank, receive.bytes, from.tag, from.peer, bytes));
  return false;
}

void MessageQueues::finish_arrival(Arrival* arrival) {
  assert(arrival != nullptr && arrival->data.size() == arrival->bytes);
  arrival->complete = true;
  if (!arrival->claimed) return;
  const Receive& receive = *arrival->claimed;
  if (receive.request == nullptr) {
    // Cancelled: the message is dropped.
  } else if (fits(receive, arrival->from, arrival->bytes)) {
    if (arrival->bytes > 0) std::memcpy(receive.out, arrival->data.data(), arrival->bytes);
    receive.request->finish(ok_status(), arrival->from.peer);
  }
  drop(arrival);
}

void MessageQueues::drop(const Arrival* arrival) {
  unexpected.remove_if([&](const Arrival& each) { return &each == arrival; });
}

bool MessageQueues::any_unsent() const {
  return std::any_of(peers.begin(), peers.end(),
                     [](const Peer& peer) { return !peer.out.empty(); });
}

std::string MessageQueues::what_has_come(int from) const {
  std::string list;
  std::size_t count = 0;
  for (const Arrival& arrival : unexpected) {
    if (arrival.claimed || (from != kAnySource && arrival.from.peer != from)) continue;
    if (++count <= kListedMessages)
      list += fmt::format("{}{} bytes with tag {} from rank {}", list.empty() ? "" : ", ",
                          arrival.bytes, arrival.from.tag, arrival.from.peer);
  }
  if (count == 0) return "no other message from it has arrived";
  return fmt::format("messages that have arrived: {}{}", list,
                     count > kListedMessages ? ", ..." : "");
}

void MessageQueues::cancel(const Completion* request, double waited) {
  if (cancel_receive(request, waited)) return;
  for (int r = 0; r < members_.size; ++r)
    if (cancel_with(r, request, waited)) return;
  for (Arrival& arrival : unexpected) {
    if (!arrival.claimed || arrival.claimed->request.get() != request) continue;
    arrival.claimed->request->finish(fail(StatusCode::kTimeout,
                                          "rank {} waited {:.3g} s for {} bytes", members_.rank,
                                          waited, arrival.bytes));
    arrival.claimed->request = nullptr;
    return;
  }
}

bool MessageQueues::cancel_receive(const Completion* request, double waited) {
  const auto found = std::find_if(posted.begin(), posted.end(), [&](const Receive& each) {
    return each.request.get() == request;
  });
  if (found == posted.end()) return false;
  const int peer = found->from.peer;
  found->request->finish(fail(
      StatusCode::kTimeout, "rank {} waited {:.3g} s to receive {} bytes with tag {} from {}; {}",
      members_.rank, waited, found->bytes, found->from.tag,
      peer == kAnySource ? "any rank" : members_.name_of(peer), what_has_come(peer)));
  posted.erase(found);
  return true;
}

// Cancels the request of a message in progress between this rank and `rank`.
bool MessageQueues::cancel_with(int rank, const Completion* request, double waited) {
  assert(request != nullptr && rank >= 0 && static_cast<std::size_t>(rank) < peers.size());
  Peer& peer = peers[static_cast<std::size_t>(rank)];
  const auto is_it = [&](const auto& each) { return each.request.get() == request; };
  const auto is_in = [&](const auto& entry) { return is_it(entry.second); };
  if (const auto it = std::find_if(peer.offered.begin(), peer.offered.end(), is_in);
      it != peer.offered.end()) {
    const auto both = std::find_if(
        unexpected.begin(), unexpected.end(),
        [&](const Arrival& arrival) { return arrival.id != 0 && arrival.from.peer == rank; });
    std::string why = "which has not received it";
    if (both != unexpected.end())
      why = fmt::format(
          "which itself sends {} bytes with tag {} to rank {}: each waits for the other to "
          "receive; make one of them receive first, or use isend",
          both->bytes, both->from.tag, members_.rank);
    it->second.request->finish(fail(
        StatusCode::kTimeout, "rank {} waited {:.3g} s to send {} bytes with tag {} to {}, {}",
        members_.rank, waited, it->second.bytes, it->second.to.tag, members_.name_of(rank), why));
    peer.offered.erase(it);
    return true;
  }
  if (const auto it = std::find_if(peer.granted.begin(), peer.granted.end(), is_in);
      it != peer.granted.end()) {
    it->second.request->finish(fail(
        StatusCode::kTimeout, "rank {} waited {:.3g} s for {} bytes with tag {} that {} is sending",
        members_.rank, waited, it->second.bytes, it->second.from.tag, members_.name_of(rank)));
    peer.granted.erase(it);
    return true;
  }
  const bool coming = peer.incoming && is_it(*peer.incoming);
  const bool leaving = std::any_of(peer.out.begin(), peer.out.end(), is_it);
  if (!coming && !leaving) return false;
  const std::string broken = fmt::format("rank {} waited {:.3g} s to finish a message with {}",
                                         members_.rank, waited, members_.name_of(rank));
  if (!coming) return fail_peer(rank, broken), true;
  peer.incoming->request->finish(fail(StatusCode::kTimeout, "{}", broken));
  peer.incoming->request = nullptr;
  peer.incoming->out = nullptr;  // the remaining data is dropped
  return true;
}

void MessageQueues::end_all(const Error& error) {
  if (!aborted) aborted = copy_of(error);
  const auto end = [&](const Request& request) {
    if (request) request->finish(copy_of(error));
  };
  for (Peer& peer : peers) {
    for (Sending& each : peer.out) end(each.request);
    for (auto& [id, each] : peer.offered) end(each.request);
    for (auto& [id, each] : peer.granted) end(each.request);
    if (peer.incoming) end(peer.incoming->request);
    peer.out.clear();
    peer.offered.clear();
    peer.granted.clear();
    peer.incoming.reset();
  }
  for (Receive& each : posted) end(each.request);
  for (Arrival& each : unexpected)
    if (each.claimed) end(each.claimed->request);
  posted.clear();
  unexpected.clear();
  (void)guarded("messages", [&] {
    faults_.raise(faults_.make(
        error.code, members_.rank,
        fmt::format("{} cancelled its messages: {}", members_.name_of(members_.rank), error.text)));
    return ok_status();
  }).ok();
}

void MessageQueues::fail_all(const Error& error) {
  for (int r = 0; r < members_.size; ++r) fail_peer(r, error.text);
  for (Receive& receive : posted) receive.request->finish(error);
  posted.clear();
}

void MessageQueues::fail_peer(int rank, const std::string& how) {
  Peer& peer = peers[rank];
  peer.ended = how;
  const auto end = [&](const Request& request, const char* verb, const Envelope& envelope,
                       std::size_t bytes) {
    if (request == nullptr) return;
    request->finish(fail(StatusCode::kRemoteError, "{}; rank {} {} {} bytes with tag {}", how,
                         members_.rank, verb, bytes, envelope.tag));
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
      peer.incoming->request->finish(fail(StatusCode::kRemoteError, "{}, in a message", how));
    peer.incoming.reset();
  }
  for (Arrival& arrival : unexpected)
    if (arrival.claimed && arrival.from.peer == rank)
      end(arrival.claimed->request, "receives from it", arrival.from, arrival.bytes);
  unexpected.remove_if(
      [&](const Arrival& arrival) { return arrival.from.peer == rank && !arrival.complete; });
  const bool nobody = std::all_of(peers.begin(), peers.end(), [&](const Peer& each) {
    return each.ended || &each == &peers[members_.rank];
  });
  for (auto it = posted.begin(); it != posted.end();) {
    const bool needs = it->from.peer == rank || (it->from.peer == kAnySource && nobody);
    if (needs) end(it->request, "receives from it", it->from, it->bytes);
    it = needs ? posted.erase(it) : std::next(it);
  }
}

std::uint64_t MessageQueues::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const Arrival& arrival : unexpected) bytes += arrival.data.size();
  for (const Peer& peer : peers) {
    for (const Sending& sending : peer.out) bytes += sending.own.size();
    for (const auto& [id, sending] : peer.offered) bytes += sending.own.size();
  }
  return bytes;
}

bool MessageQueues::has_left(int rank) const {
  const int local = members_.local_of(rank);
  if (local < 0) return !remote_.links()->error_of(rank).ok();
  if (HostAtomics::load_acquire(host_.peers[local].progress->state) == kLeft) return true;
  return !host_.peers[local].same_process && has_ended(members_.process_of(local));
}

// A rank counts as gone only if two checks in a row see it: by then all that it sent has been
// received.
void MessageQueues::look_for_ended() {
  const std::int64_t now = now_ns();
  if (aborted || now - last_look_ns < kLookPeriod) return;
  last_look_ns = now;
  if (faults_.is_raised() || faults_.adopt_from_peers()) {
    const Error error = faults_.error();
    aborted = error;
    return fail_all(error);
  }
  for (int r = 0; r < members_.size; ++r) {
    Peer& peer = peers[r];
    if (r == members_.rank || peer.ended || !has_left(r)) continue;
    if (peer.looks_ended) fail_peer(r, fmt::format("{} has ended", members_.name_of(r)));
    peer.looks_ended = true;
  }
}

}  // namespace rondo
