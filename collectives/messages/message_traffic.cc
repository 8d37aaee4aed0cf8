// SPDX-License-Identifier: Apache-2.0
#include "collectives/messages/message_traffic.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/host/slots.h"

namespace rondo {
namespace {

using Arrival = MessageQueues::Arrival;
using Envelope = MessageQueues::Envelope;
using Incoming = MessageQueues::Incoming;
using Kind = MessageQueues::Kind;
using Receive = MessageQueues::Receive;
using Sending = MessageQueues::Sending;
using enum MessageQueues::Kind;

}  // namespace

Status MessageTraffic::open(std::span<const std::vector<std::byte>> limits) {
  assert(limits.size() == static_cast<std::size_t>(members_.size));
  for (int r = 0; r < members_.size; ++r) {
    Peer& peer = queues_.peers[r];
    std::memcpy(&peer.eager_bytes, limits[r].data(), sizeof(peer.eager_bytes));
    if (r == members_.rank) continue;
    RONDO_TRY(peer.from, connections_->from(r, kPointToPointLane));
  }
  return ok_status();
}

Status MessageTraffic::open_to(int rank) {
  assert(rank >= 0 && rank < members_.size && rank != members_.rank);
  Peer& peer = queues_.peers[rank];
  if (peer.to != nullptr) return ok_status();
  RONDO_TRY(peer.to, connections_->to(rank, kPointToPointLane));
  return ok_status();
}

bool MessageTraffic::progress() {
  if (queues_.aborted) return false;
  bool moved = remote_.links() != nullptr && remote_.links()->progress();
  for (int r = 0; r < members_.size; ++r) {
    if (queues_.peers[r].from != nullptr && !queues_.peers[r].refused) moved |= pull(r);
    if (!queues_.peers[r].out.empty()) moved |= push(r);
  }
  if (moved && remote_.links() != nullptr) remote_.links()->progress();
  return moved;
}

// ---- out ----

Status MessageTraffic::send(Sending sending) {
  const int to = sending.to.peer;
  RONDO_CHECK_OK(open_to(to));
  if (sending.bytes > eager_bytes_) {
    sending.kind = kOffer;
    sending.id = next_id(queues_.peers[to]);
  }
  enqueue(to, std::move(sending));
  return ok_status();
}

// Ids wrap around. Skips 0 (none) and ids of offers that are still unanswered.
std::uint32_t MessageTraffic::next_id(const Peer& peer) {
  while (last_offer == UINT32_MAX || peer.offered.count(last_offer + 1) > 0)
    last_offer = last_offer == UINT32_MAX ? 0 : last_offer + 1;
  return ++last_offer;
}

void MessageTraffic::enqueue(int to, Sending sending) {
  assert(to != members_.rank && "messages to itself are delivered at once");
  Peer& peer = queues_.peers[to];
  peer.out.push_back(std::move(sending));
  push(to);
  if (remote_.links() != nullptr) remote_.links()->progress();
  if (peer.out.empty()) return;
  // Data without a free slot is copied, so that the sender can continue.
  Sending& last = peer.out.back();
  if (last.kind != kEager || last.request == nullptr) return;
  last.own.assign(last.next, last.next + last.left);
  last.next = last.own.data();
  std::exchange(last.request, nullptr)->finish(ok_status());
}

bool MessageTraffic::push(int to) {
  assert(queues_.peers[to].to != nullptr && "after open_to()");
  Peer& peer = queues_.peers[to];
  host::SendEnd<> end(*peer.to);
  bool moved = false;
  while (!peer.out.empty() && end.ready()) {
    Sending& sending = peer.out.front();
    const bool has_tag = sending.kind == kEager || sending.kind == kOffer;
    const auto record = std::bit_cast<CallRecord>(
        Header{.bytes = sending.bytes,
               .type = sending.to.type,
               .kind = sending.kind,
               .of = has_tag ? sending.to.tag : static_cast<std::int32_t>(sending.id)});
    moved = true;
    if (sending.kind == kEager || sending.kind == kData) {
      const std::size_t count = std::min<std::size_t>(sending.left, peer.to->slot_bytes);
      if (count > 0) std::memcpy(end.slot(), sending.next, count);
      end.push(count, record);
      sending.next += count;
      sending.left -= count;
      if (sending.left > 0) continue;
      if (sending.request) sending.request->finish(ok_status());
    } else {
      std::uint64_t note = sending.kind == kRefuse ? sending.left : sending.id;
      std::memcpy(end.slot(), &note, sizeof(note));
      end.push(sizeof(note), record);
      if (sending.kind == kOffer) peer.offered.emplace(sending.id, std::move(sending));
    }
    peer.out.pop_front();
  }
  return moved;
}

// Handles the answer to an offer: sends the data, or the error that both sides get.
void MessageTraffic::answer(int from, std::uint32_t id, const std::uint64_t* refused) {
  Peer& peer = queues_.peers[from];
  const auto found = peer.offered.find(id);
  if (found == peer.offered.end()) return;
  Sending sending = std::move(found->second);
  peer.offered.erase(found);
  if (refused != nullptr) {
    sending.request->finish(fail(StatusCode::kInvalidUsage,
                                 "rank {} sends {} bytes with tag {} to rank {}, which receives {}",
                                 members_.rank, sending.bytes, sending.to.tag, from, *refused));
    return;
  }
  sending.kind = kData;
  enqueue(from, std::move(sending));
}

// ---- in ----

bool MessageTraffic::pull(int from) {
  assert(queues_.peers[from].from != nullptr && !queues_.peers[from].refused);
  host::ReceiveEnd<> end(*queues_.peers[from].from);
  bool moved = false;
  while (end.ready()) {
    if (!queues_.peers[from].incoming) begin(from, std::bit_cast<Header>(end.record()), end.slot());
    if (queues_.peers[from].refused) return true;
    if (queues_.peers[from].incoming) take(from, end.slot(), end.bytes());
    end.pop();
    moved = true;
  }
  return moved;
}

void MessageTraffic::begin(int from, const Header& header, const std::byte* slot) {
  const Kind kind = header.kind;
  const auto id = static_cast<std::uint32_t>(header.of);
  std::uint64_t note = 0;
  if (kind != kEager && kind != kData) std::memcpy(&note, slot, sizeof(note));
  if (kind == kGrant) return answer(from, id, nullptr);
  if (kind == kRefuse) return answer(from, id, &note);
  if (kind == kData) return begin_data(from, header);
  Peer& peer = queues_.peers[from];
  if (kind == kEager && header.bytes > peer.eager_bytes)
    return refuse(from,
                  fmt::format("an eager message of {} bytes, although its RONDO_EAGER_BYTES is {}",
                              header.bytes, peer.eager_bytes));
  const Envelope envelope{from, header.of, header.type};
  std::optional<Receive> receive = queues_.match(envelope);
  if (receive && kind == kEager) {
    const bool fitting = queues_.fits(*receive, envelope, header.bytes);
    peer.incoming = Incoming{fitting ? receive->out : nullptr, header.bytes,
                             fitting ? receive->request : nullptr, nullptr};
    return;
  }
  Arrival arrival;
  arrival.from = envelope;
  arrival.bytes = header.bytes;
  if (kind == kOffer) {
    arrival.id = static_cast<std::uint32_t>(note);
    if (receive) return accept_offer(*receive, arrival);
    queues_.unexpected.push_back(std::move(arrival));
    return;
  }
  arrival.data.resize(header.bytes);
  queues_.unexpected.push_back(std::move(arrival));
  Arrival& kept = queues_.unexpected.back();
  peer.incoming = Incoming{kept.data.data(), header.bytes, nullptr, &kept};
}

void MessageTraffic::begin_data(int from, const Header& header) {
  Peer& peer = queues_.peers[from];
  auto granted = peer.granted.extract(static_cast<std::uint32_t>(header.of));
  Incoming incoming{nullptr, header.bytes, nullptr, nullptr};
  if (!granted.empty()) {
    if (granted.mapped().bytes != header.bytes) {
      const std::uint64_t wanted = granted.mapped().bytes;
      peer.granted.insert(std::move(granted));
      return refuse(from, fmt::format("{} bytes, but {} were requested", header.bytes, wanted));
    }
    incoming.out = granted.mapped().out;
    incoming.request = granted.mapped().request;
  }
  peer.incoming = std::move(incoming);
}

// The peer's later slots cannot be interpreted any more.
void MessageTraffic::refuse(int from, const std::string& what) {
  queues_.peers[from].refused = true;
  queues_.fail_peer(from, fmt::format("{} sent {}", members_.name_of(from), what));
}

void MessageTraffic::take(int from, const std::byte* bytes, std::size_t count) {
  Incoming& incoming = *queues_.peers[from].incoming;
  count = std::min(count, incoming.left);
  if (incoming.out != nullptr && count > 0) {
    std::memcpy(incoming.out, bytes, count);
    incoming.out += count;
  }
  incoming.left -= count;
  if (incoming.left > 0) return;
  Arrival* arrival = incoming.arrival;
  if (incoming.request) incoming.request->finish(ok_status(), from);
  queues_.peers[from].incoming.reset();
  if (arrival != nullptr) queues_.finish_arrival(arrival);
}

void MessageTraffic::accept_offer(const Receive& receive, const Arrival& offer) {
  Sending reply;
  reply.id = offer.id;
  reply.left = receive.bytes;
  reply.kind = queues_.fits(receive, offer.from, offer.bytes) ? kGrant : kRefuse;
  if (reply.kind == kGrant) queues_.peers[offer.from.peer].granted.emplace(offer.id, receive);
  if (const Status open = open_to(offer.from.peer); !open.ok())
    return queues_.fail_peer(offer.from.peer, open.error().text);
  enqueue(offer.from.peer, std::move(reply));
}

}  // namespace rondo
