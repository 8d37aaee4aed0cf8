// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/one_sided_calls.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "collectives/faults/peer_words.h"
#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/host/slots.h"
#include "kernels/host/touch.h"

namespace rondo {
namespace {

using host::ReceiveEnd;
using host::SendEnd;

constexpr std::size_t kStreamFrom = 16 << 20;  // larger copies leave the cache in any case

}  // namespace

// Address at which this process can write the peer's window, or null.
std::byte* OneSidedCalls::reachable(const Window& window, int peer) const {
  assert(peer >= 0 && static_cast<std::size_t>(peer) < window.sides.size());
  const Window::Side& side = window.sides[peer];
  if (peer == members_.rank) return reinterpret_cast<std::byte*>(side.pointer);
  const int local = members_.local_of(peer);
  if (local < 0) return nullptr;
  const PeerPort& port = host_.peers[local];
  if (port.same_process) return reinterpret_cast<std::byte*>(side.pointer);
  if (side.place == 0 || port.arena == nullptr) return nullptr;
  if (std::byte* at = host::reach(port, side.place)) return at;
  // If it cannot be mapped, the data travels in slots.
  const auto& neighbour = members_.process_of(local).neighbour;
  return neighbour->reach(side.place).ok() ? host::reach(port, side.place) : nullptr;
}

// Its place in the arena if peers can reach all of it; else 0.
std::uint64_t OneSidedCalls::place_of(const void* memory, std::size_t bytes) const {
  const std::uint64_t place = host::place_of(host_.arena, memory);
  if (place == 0 || bytes == 0) return 0;
  const auto* last = static_cast<const std::byte*>(memory) + bytes - 1;
  const std::uint64_t end = host::place_of(host_.arena, last) & ~kPlacePartly;
  const bool whole =
      end == (place & ~kPlacePartly) + bytes - 1 && Withdrawal::is_reachable(memory, bytes);
  return whole ? place & ~kPlacePartly : 0;
}

std::uint64_t OneSidedCalls::withdrawals() const {
  return host_.arena.withdrawals == nullptr ? 0
                                            : HostAtomics::load_acquire(*host_.arena.withdrawals);
}

// Raises a fault and returns false if another communicator cut off a window: puts into it were
// lost.
bool OneSidedCalls::windows_are_whole() {
  if (withdrawals_ == withdrawals()) return true;
  withdrawals_ = withdrawals();
  for (const Window& window : windows_) {
    const Window::Side& own = window.sides[members_.rank];
    if (!window.alive || own.place == 0 ||
        Withdrawal::is_reachable(reinterpret_cast<const void*>(own.pointer), own.bytes))
      continue;
    faults_.raise(
        faults_.make(StatusCode::kRemoteError, members_.rank,
                     fmt::format("rank {}: a window was made inaccessible to its peers, because a "
                                 "rank of another communicator still uses it and makes no progress",
                                 members_.rank)));
    return false;
  }
  return true;
}

OneSidedCalls::Offer OneSidedCalls::offer_of(void* memory, std::size_t bytes) {
  const WindowSide side{.memory = {.bytes = {static_cast<std::byte*>(memory), bytes}}};
  std::string why_not;
  const WindowKeys keys = remote_puts_.offer({&side, 1}, &why_not);
  if (!why_not.empty())
    RONDO_WARN(
        "rank {}: the network cannot write into its window of {} bytes, so puts from other hosts "
        "progress only while this rank is in a one-sided call: {}",
        members_.rank, bytes, why_not);
  return {{reinterpret_cast<std::uintptr_t>(memory), bytes, place_of(memory, bytes)}, keys};
}

Result<int> OneSidedCalls::add_window(std::span<const Offer> offers) {
  assert(offers.size() == static_cast<std::size_t>(members_.size));
  std::vector<Window::Side> sides;
  std::vector<WindowKeys> keys;
  for (const Offer& offer : offers) {
    sides.push_back(offer.side);
    keys.push_back(offer.keys);
  }
  if (windows_.empty()) withdrawals_ = withdrawals();
  windows_.push_back({true, std::move(sides)});
  call_.record.collective = Collective::kPut;  // name of the call in faults
  const Status opened = remote_puts_.open(keys);
  call_.record = CallRecord{};
  RONDO_CHECK_OK(opened);
  return static_cast<int>(windows_.size()) - 1;
}

std::size_t OneSidedCalls::window_bytes(int window, int peer) const {
  assert(window >= 0 && static_cast<std::size_t>(window) < windows_.size());
  assert(peer >= 0 && peer < members_.size);
  return windows_[static_cast<std::size_t>(window)].sides[static_cast<std::size_t>(peer)].bytes;
}

void OneSidedCalls::withdraw_all() {
  for (int window = 0; window < static_cast<int>(windows_.size()); ++window) withdraw(window);
}

void OneSidedCalls::withdraw(int number) {
  if (number < 0 || number >= static_cast<int>(windows_.size())) return;
  Window& window = windows_[static_cast<std::size_t>(number)];
  const bool was_alive = std::exchange(window.alive, false);
  if (was_alive) remote_puts_.close(number);
  if (!was_alive || !faults_.is_raised()) return;
  supervisor_.install(false);
  if (host::outlast_touches(host_) || !withdrawal_.touches_may_go_on()) return;
  const Window::Side& own = window.sides[members_.rank];
  const Status cut = withdrawal_.cut_off(reinterpret_cast<const void*>(own.pointer), own.bytes);
  if (!cut.ok())
    RONDO_WARN("rank {}: a peer that makes no progress may still write to a window: {}",
               members_.rank, cut.error().text);
}

OneSidedCalls::Peer& OneSidedCalls::peer_at(int rank) {
  assert(rank >= 0 && rank < members_.size);
  if (peers_.empty()) peers_.resize(static_cast<std::size_t>(members_.size));
  return peers_[static_cast<std::size_t>(rank)];
}

// Stores data that arrived through lanes. True if there was any.
bool OneSidedCalls::take_puts() {
  bool moved = false;
  for (int p = 0; p < static_cast<int>(peers_.size()) && !faults_.is_raised(); ++p)
    if (peers_[p].incoming != nullptr) moved |= take_puts_of(p);
  return moved;
}

bool OneSidedCalls::take_puts_of(int p) {
  Peer& peer = peers_[p];
  ReceiveEnd<> end(*peer.incoming);
  bool moved = false;
  for (; end.ready(); end.pop(), moved = true) {
    if (!peer.receiving) {
      if (end.bytes() != sizeof(PutHeader))
        return refuse_put(p, "sends a put without a valid header");
      std::memcpy(&peer.now, end.slot(), sizeof(PutHeader));
      if (peer.now.signal >= kSignals) return refuse_put(p, "raises a signal that does not exist");
      if (peer.now.window != kNoWindow) {
        const bool known = peer.now.window < windows_.size();
        if (!known || !windows_[peer.now.window].alive)
          return refuse_put(p, "puts into a window that is not registered here");
        const std::uint64_t there = windows_[peer.now.window].sides[members_.rank].bytes;
        if (peer.now.offset > there || peer.now.bytes > there - peer.now.offset)
          return refuse_put(p, "puts beyond the end of the window");
      }
      peer.received = 0;
      peer.receiving = true;
    } else {
      const std::uint64_t bytes = end.bytes();
      if (bytes > peer.now.bytes - peer.received)
        return refuse_put(p, "sends more bytes than it announced");
      const Window::Side& own = windows_[peer.now.window].sides[members_.rank];
      auto* to = reinterpret_cast<std::byte*>(own.pointer) + peer.now.offset + peer.received;
      std::memcpy(to, end.slot(), bytes);
      peer.received += bytes;
    }
    if (peer.received < peer.now.bytes) continue;
    peer.receiving = false;
    ++peer.arrived[peer.now.signal];
  }
  return moved;
}

bool OneSidedCalls::refuse_put(int peer, const char* what) {
  faults_.raise(faults_.make(
      StatusCode::kInvalidUsage, peer,
      fmt::format("{} {}; rank {} refuses it", members_.name_of(peer), what, members_.rank)));
  return true;
}

// Opens both directions: if the target also puts to this rank, each must take the other's data.
Status OneSidedCalls::open_lane(int peer) {
  assert(peer != members_.rank);
  Peer& end = peer_at(peer);
  if (end.outgoing == nullptr) {
    RONDO_TRY(end.outgoing, connections_->to(peer, kPutLane));
  }
  return receive_lane(peer);
}

Status OneSidedCalls::receive_lane(int peer) {
  assert(peer != members_.rank);
  Peer& end = peer_at(peer);
  if (end.incoming != nullptr) return ok_status();
  RONDO_TRY(end.incoming, connections_->from(peer, kPutLane));
  return ok_status();
}

bool OneSidedCalls::send_slot(Connection& connection, const void* from, std::size_t bytes,
                              const CallRecord& record) {
  assert(bytes <= connection.slot_bytes);
  SendEnd<> end(connection);
  const auto ready = [&] {
    take_puts();
    return end.ready() || faults_.is_raised();
  };
  if (!host_.waiter.until(ready, {-1, *connection.tail, connection.peer})) return false;
  if (faults_.is_raised()) return false;
  std::memcpy(end.slot(), from, bytes);
  end.push(bytes, record);
  return true;
}

// False if an earlier put may still be in flight in slots.
bool OneSidedCalls::by_network(const Peer& peer, const Call& call) const {
  return members_.local_of(call.peer) < 0 && !peer.by_lane &&
         remote_puts_.reaches(call.window, call.peer);
}

Status OneSidedCalls::put(const Call& call) {
  assert(call.signal < kSignals);
  Peer& peer = peer_at(call.peer);
  const std::size_t bytes = call.window < 0 ? 0 : call.record.count * size_of(call.record.type);
  if (by_network(peer, call)) return remote_puts_.put(call);
  assert(call.window < static_cast<int>(windows_.size()));  // those of GPUs are of remote_puts_
  const Window* window = call.window < 0 ? nullptr : &windows_[call.window];
  const int local = members_.local_of(call.peer);
  std::byte* target = window != nullptr ? reachable(*window, call.peer) : nullptr;
  const bool direct = peer.outgoing == nullptr && (local >= 0) && (bytes == 0 || target != nullptr);
  if (direct) {
    if (bytes > 0) {
      // A peer with a fault may have freed its window: see kernels/host/touch.h.
      const host::Touch touch(host_, call.peer != members_.rank);
      if (call.peer != members_.rank && HostAtomics::load_seq_cst(*host_.peers[local].faulted) != 0)
        return faults_.why_it_ended();
      host::copy_bytes(target + call.offset, call.send, bytes, bytes >= kStreamFrom);
    }
    if (call.peer == members_.rank) {
      ++peer.arrived[call.signal];
      return ok_status();
    }
    const PeerPort& port = host_.peers[local];
    std::uint64_t& word = port.signals[host_.rank * kSignals + call.signal];
    HostAtomics::store_seq_cst(word, HostAtomics::load_relaxed(word) + 1);
    ring_if_parked<DoorbellAtomics>(*port.parked, *port.bell);
    return ok_status();
  }
  return put_by_lane(peer, window, call, bytes);
}

Status OneSidedCalls::put_by_lane(Peer& peer, const Window* window, const Call& call,
                                  std::size_t bytes) {
  RONDO_CHECK_OK(remote_puts_.flush(call.peer));
  peer.by_lane |= bytes > 0;
  RONDO_CHECK_OK(open_lane(call.peer));
  const PutHeader header{window == nullptr ? kNoWindow : static_cast<std::uint64_t>(call.window),
                         call.offset, bytes, static_cast<std::uint64_t>(call.signal)};
  if (!send_slot(*peer.outgoing, &header, sizeof(header), call.record))
    return faults_.why_it_ended();
  const auto* from = static_cast<const std::byte*>(call.send);
  for (std::size_t sent = 0; sent < bytes;) {
    const std::size_t part = std::min<std::size_t>(bytes - sent, peer.outgoing->slot_bytes);
    if (!send_slot(*peer.outgoing, from + sent, part, call.record)) return faults_.why_it_ended();
    sent += part;
  }
  return ok_status();
}

Status OneSidedCalls::wait_signal(const Call& call) {
  assert(call.signal >= 0 && call.signal < kSignals);
  Peer& peer = peer_at(call.peer);
  const int local = members_.local_of(call.peer);
  if (call.peer != members_.rank) RONDO_CHECK_OK(receive_lane(call.peer));
  const std::uint64_t target = peer.taken[call.signal] + call.record.count;
  const auto ready = [&] {
    take_puts();
    std::uint64_t come = peer.arrived[call.signal];
    if (local < 0) come += remote_puts_.raised_by(call.peer, call.signal);
    if (local >= 0 && call.peer != members_.rank)
      come += HostAtomics::load_acquire(host_.self().signals[local * kSignals + call.signal]);
    return come >= target || faults_.is_raised();
  };
  if (!host_.waiter.until(ready, {-1, target, call.peer})) return faults_.why_it_ended();
  if (faults_.is_raised()) return faults_.why_it_ended();
  peer.taken[call.signal] = target;
  return windows_are_whole() ? ok_status() : faults_.why_it_ended();
}

// They are not announced, so they enter the black box here.
void OneSidedCalls::record(const Call& call) {
  CallRecord record = call.record;
  record.root = call.peer;
  host_.recorder.begin(record, 0);
}

Status OneSidedCalls::run(std::span<const Call> calls) {
  for (const bool waits : {false, true})
    for (const Call& call : calls) {
      const Collective which = call.record.collective;
      if (!is_one_sided(call) || (which == Collective::kWaitSignal) != waits) continue;
      call_.record = call.record;
      record(call);
      const Status result = waits ? wait_signal(call) : put(call);
      call_.record = CallRecord{};
      RONDO_CHECK_OK(result);
      host_.recorder.end(StatusCode::kSuccess);
    }
  RONDO_CHECK_OK(remote_puts_.flush());
  return remote_.flush();
}

}  // namespace rondo
