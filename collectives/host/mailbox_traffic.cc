// Mailbox: slots into messages and messages into slots.
#include <algorithm>
#include <cstring>

#include "collectives/communicator/communicator_state.h"
#include "collectives/host/mailbox.h"
#include "kernels/host/slots.h"

namespace rondo {

bool Mailbox::progress() {
  if (aborted_) return false;
  bool moved = state_.remote.links() != nullptr && state_.remote.links()->progress();
  for (int r = 0; r < state_.members.size; ++r) {
    if (peers_[r].from != nullptr && !peers_[r].refused) moved |= pull(r);
    if (!peers_[r].out.empty()) moved |= push(r);
  }
  if (moved && state_.remote.links() != nullptr) state_.remote.links()->progress();
  return moved;
}

// ---- out ----

void Mailbox::enqueue(int to, Sending sending) {
  Peer& peer = peers_[to];
  peer.out.push_back(std::move(sending));
  push(to);
  if (state_.remote.links() != nullptr) state_.remote.links()->progress();
  if (peer.out.empty()) return;
  // What found no slot is copied, so that the sender goes on.
  Sending& last = peer.out.back();
  if (last.kind != kEager || last.request == nullptr) return;
  last.own.assign(last.next, last.next + last.left);
  last.next = last.own.data();
  std::exchange(last.request, nullptr)->finish(done());
}

bool Mailbox::push(int to) {
  Peer& peer = peers_[to];
  host::SendEnd<> end(*peer.to);
  bool moved = false;
  while (!peer.out.empty() && end.ready()) {
    Sending& sending = peer.out.front();
    const bool has_tag = sending.kind == kEager || sending.kind == kOffer;
    const CallRecord record{
        sending.bytes,   Collective::kSend,
        sending.to.type, RedOp::kSum,
        sending.kind,    has_tag ? sending.to.tag : static_cast<std::int32_t>(sending.id)};
    moved = true;
    if (sending.kind == kEager || sending.kind == kData) {
      const std::size_t count = std::min<std::size_t>(sending.left, peer.to->slot_bytes);
      if (count > 0) std::memcpy(end.slot(), sending.next, count);
      end.push(count, record);
      sending.next += count;
      sending.left -= count;
      if (sending.left > 0) continue;
      if (sending.request) sending.request->finish(done());
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

// The answer to an offer: its data, or the error that both sides get.
void Mailbox::answer(int from, std::uint32_t id, const std::uint64_t* refused) {
  Peer& peer = peers_[from];
  const auto found = peer.offered.find(id);
  if (found == peer.offered.end()) return;
  Sending sending = std::move(found->second);
  peer.offered.erase(found);
  if (refused != nullptr) {
    sending.request->finish(fail(
        Status::kInvalidUsage, "rank {} sends {} bytes with tag {} to rank {}, which receives {}",
        state_.members.rank, sending.bytes, sending.to.tag, from, *refused));
    return;
  }
  sending.kind = kData;
  enqueue(from, std::move(sending));
}

// ---- in ----

bool Mailbox::pull(int from) {
  host::ReceiveEnd<> end(*peers_[from].from);
  bool moved = false;
  while (end.ready()) {
    if (!peers_[from].incoming) begin(from, end.record(), end.slot());
    if (peers_[from].refused) return true;
    if (peers_[from].incoming) take(from, end.slot(), end.bytes());
    end.pop();
    moved = true;
  }
  return moved;
}

void Mailbox::begin(int from, const CallRecord& record, const std::byte* slot) {
  const auto id = static_cast<std::uint32_t>(record.root);
  std::uint64_t note = 0;
  if (record.flags != kEager && record.flags != kData) std::memcpy(&note, slot, sizeof(note));
  if (record.flags == kGrant) return answer(from, id, nullptr);
  if (record.flags == kRefuse) return answer(from, id, &note);
  Peer& peer = peers_[from];
  if (record.flags == kData) {
    auto granted = peer.granted.extract(id);
    Incoming incoming{nullptr, record.count, nullptr, nullptr};
    if (!granted.empty()) {
      if (granted.mapped().bytes != record.count) {
        const std::uint64_t wanted = granted.mapped().bytes;
        peer.granted.insert(std::move(granted));
        return refuse(from, fmt::format("{} bytes where {} were asked for", record.count, wanted));
      }
      incoming.out = granted.mapped().out;
      incoming.request = granted.mapped().request;
    }
    peer.incoming = std::move(incoming);
    return;
  }
  if (record.flags == kEager && record.count > peer.eager_bytes)
    return refuse(from, fmt::format("a message of {} bytes unasked, while its RONDO_EAGER_BYTES "
                                    "is {}",
                                    record.count, peer.eager_bytes));
  const Envelope envelope{from, record.root, record.type};
  std::optional<Receive> receive = match(envelope);
  if (receive && record.flags == kEager) {
    const bool fitting = fits(*receive, envelope, record.count);
    peer.incoming = Incoming{fitting ? receive->out : nullptr, record.count,
                             fitting ? receive->request : nullptr, nullptr};
    return;
  }
  Arrival arrival;
  arrival.from = envelope;
  arrival.bytes = record.count;
  if (record.flags == kOffer) {
    arrival.id = static_cast<std::uint32_t>(note);
    if (receive) return accept_offer(*receive, arrival);
    unexpected_.push_back(std::move(arrival));
    return;
  }
  arrival.data.resize(record.count);
  unexpected_.push_back(std::move(arrival));
  Arrival& kept = unexpected_.back();
  peer.incoming = Incoming{kept.data.data(), record.count, nullptr, &kept};
}

// Its slots make no sense any more.
void Mailbox::refuse(int from, const std::string& what) {
  peers_[from].refused = true;
  fail_peer(from, fmt::format("{} sent {}", state_.members.name_of(from), what));
}

void Mailbox::take(int from, const std::byte* bytes, std::size_t count) {
  Incoming& incoming = *peers_[from].incoming;
  count = std::min(count, incoming.left);
  if (incoming.out != nullptr && count > 0) {
    std::memcpy(incoming.out, bytes, count);
    incoming.out += count;
  }
  incoming.left -= count;
  if (incoming.left > 0) return;
  Arrival* arrival = incoming.arrival;
  if (incoming.request) incoming.request->finish(done(), from);
  peers_[from].incoming.reset();
  if (arrival != nullptr) finish_arrival(arrival);
}

// The first receive that waits for such a message.
std::optional<Mailbox::Receive> Mailbox::match(const Envelope& from) {
  const auto found = std::find_if(posted_.begin(), posted_.end(), [&](const Receive& receive) {
    return receive.from.tag == from.tag &&
           (receive.from.peer == from.peer || receive.from.peer == kAnySource);
  });
  if (found == posted_.end()) return std::nullopt;
  Receive receive = std::move(*found);
  posted_.erase(found);
  return receive;
}

// Otherwise the receive has failed.
bool Mailbox::fits(const Receive& receive, const Envelope& from, std::size_t bytes) {
  if (receive.bytes == bytes) return true;
  receive.request->finish(fail(Status::kInvalidUsage,
                               "rank {} receives {} bytes with tag {} from rank {}, which sent {}",
                               state_.members.rank, receive.bytes, from.tag, from.peer, bytes));
  return false;
}

void Mailbox::accept_offer(const Receive& receive, const Arrival& offer) {
  Sending reply;
  reply.id = offer.id;
  reply.left = receive.bytes;
  reply.kind = fits(receive, offer.from, offer.bytes) ? kGrant : kRefuse;
  if (reply.kind == kGrant) peers_[offer.from.peer].granted.emplace(offer.id, receive);
  Peer& peer = peers_[offer.from.peer];
  if (peer.to == nullptr) {
    auto made = state_.connections->to(offer.from.peer, kPointToPointLane);
    if (!made.ok()) return fail_peer(offer.from.peer, made.error().text);
    peer.to = *made;
  }
  enqueue(offer.from.peer, std::move(reply));
}

void Mailbox::finish_arrival(Arrival* arrival) {
  arrival->complete = true;
  if (!arrival->claimed) return;
  const Receive& receive = *arrival->claimed;
  if (receive.request == nullptr) {
    // Cancelled: the message has come for nobody.
  } else if (fits(receive, arrival->from, arrival->bytes)) {
    if (arrival->bytes > 0) std::memcpy(receive.out, arrival->data.data(), arrival->bytes);
    receive.request->finish(done(), arrival->from.peer);
  }
  unexpected_.remove_if([&](const Arrival& each) { return &each == arrival; });
}

}  // namespace rondo
