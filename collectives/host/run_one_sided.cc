// Windows, puts and signals of a communicator.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/device_windows.h"
#include "kernels/host/reach.h"
#include "kernels/host/reduce_kernels.h"
#include "kernels/host/slots.h"
#include "kernels/host/touch.h"

namespace rondo {
namespace {

using host::ReceiveEnd;
using host::SendEnd;

constexpr std::size_t kStreamFrom = 16 << 20;  // leaves the cache anyway

}  // namespace

OneSided& CommunicatorState::one_sided() {
  if (!rma) rma = std::make_unique<OneSided>(size);
  return *rma;
}

// Where the peer's window can be written from here, or null.
std::byte* CommunicatorState::reachable(const Window& window, int peer) const {
  const Window::Side& side = window.sides[peer];
  if (peer == rank) return reinterpret_cast<std::byte*>(side.pointer);
  const int local = local_of(peer);
  if (local < 0) return nullptr;
  const PeerPort& port = host.peers[local];
  if (port.same_process) return reinterpret_cast<std::byte*>(side.pointer);
  if (side.place == 0 || port.arena == nullptr) return nullptr;
  if (std::byte* at = host::reach(port, side.place)) return at;
  // Where it cannot be mapped, the bytes travel in slots.
  const auto& neighbour = group->processes[group->process_of_member[local]].neighbour;
  return neighbour->reach(side.place).ok() ? host::reach(port, side.place) : nullptr;
}

// Its place in the arena, if peers may have all of it.
std::uint64_t CommunicatorState::place_of_window(const void* memory, std::size_t bytes) const {
  const std::uint64_t place = host::place_of(host.arena, memory);
  if (place == 0 || bytes == 0) return 0;
  const auto* last = static_cast<const std::byte*>(memory) + bytes - 1;
  const std::uint64_t end = host::place_of(host.arena, last) & ~kPlacePartly;
  const bool whole = end == (place & ~kPlacePartly) + bytes - 1 && is_reachable(memory, bytes);
  return whole ? place & ~kPlacePartly : 0;
}

std::uint64_t CommunicatorState::withdrawals() const {
  return host.arena.withdrawals == nullptr ? 0 : HostAtomics::load_acquire(*host.arena.withdrawals);
}

// False, and a fault, where another communicator has cut one off: puts into it were not seen.
bool CommunicatorState::windows_are_whole() {
  if (rma->withdrawals == withdrawals()) return true;
  rma->withdrawals = withdrawals();
  for (const Window& window : rma->windows) {
    const Window::Side& own = window.sides[rank];
    if (!window.alive || own.place == 0 ||
        is_reachable(reinterpret_cast<const void*>(own.pointer), own.bytes))
      continue;
    raise(make_fault(Status::kRemoteError, rank,
                     fmt::format("rank {}: a window was taken out of its peers' reach, because a "
                                 "rank of another communicator stands still in it",
                                 rank)));
    return false;
  }
  return true;
}

// No peer puts into it any more; after a fault one may stand still in the middle of a put.
void CommunicatorState::withdraw_window(Window& window) {
  const bool was_alive = std::exchange(window.alive, false);
  if (!was_alive || !faulted.load(std::memory_order_acquire) || forked()) return;
  install_supervisor(false);
  if (host::outlast_touches(host) || !touches_may_go_on) return;
  const Window::Side& own = window.sides[rank];
  if (const Done cut = cut_off(reinterpret_cast<const void*>(own.pointer), own.bytes); !cut.ok())
    RONDO_WARN("rank {}: a peer that stands still may yet write a window: {}", rank,
               cut.error().text);
}

// Stores what has come along lanes. True if something has.
bool CommunicatorState::take_puts() {
  bool moved = false;
  for (int p = 0; p < size && !faulted.load(std::memory_order_relaxed); ++p)
    if (rma->peers[p].incoming != nullptr) moved |= take_puts_of(p);
  return moved;
}

bool CommunicatorState::take_puts_of(int p) {
  OneSided::Peer& peer = rma->peers[p];
  ReceiveEnd<> end(*peer.incoming);
  bool moved = false;
  for (; end.ready(); end.pop(), moved = true) {
    if (!peer.receiving) {
      if (end.bytes() != sizeof(PutHeader)) return refuse_put(p, "sends what is no put");
      std::memcpy(&peer.now, end.slot(), sizeof(PutHeader));
      if (peer.now.signal >= kSignals) return refuse_put(p, "raises a signal that is none");
      if (peer.now.window != kNoWindow) {
        const bool known = peer.now.window < rma->windows.size();
        if (!known || !rma->windows[peer.now.window].alive)
          return refuse_put(p, "puts into a window that is not registered here");
        const std::uint64_t there = rma->windows[peer.now.window].sides[rank].bytes;
        if (peer.now.offset > there || peer.now.bytes > there - peer.now.offset)
          return refuse_put(p, "puts beyond the window");
      }
      peer.received = 0;
      peer.receiving = true;
    } else {
      const std::uint64_t bytes = end.bytes();
      if (bytes > peer.now.bytes - peer.received) return refuse_put(p, "sends more than it said");
      const Window::Side& own = rma->windows[peer.now.window].sides[rank];
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

bool CommunicatorState::refuse_put(int peer, const char* what) {
  raise(make_fault(Status::kInvalidUsage, peer,
                   fmt::format("{} {} of rank {}", rank_name(peer), what, rank)));
  return true;
}

// Both ways at once: a put may need its target, who is putting itself, to take it.
Done CommunicatorState::open_lane(int peer) {
  OneSided::Peer& end = one_sided().peers[peer];
  if (end.outgoing == nullptr) {
    RONDO_TRY(end.outgoing, connections->to(peer, kPutLane));
  }
  return hear_lane(peer);
}

Done CommunicatorState::hear_lane(int peer) {
  OneSided::Peer& end = one_sided().peers[peer];
  if (end.incoming != nullptr) return done();
  RONDO_TRY(end.incoming, connections->from(peer, kPutLane));
  return done();
}

bool CommunicatorState::send_slot(Connection& connection, const void* from, std::size_t bytes,
                                  const CallRecord& record) {
  SendEnd<> end(connection);
  const auto ready = [&] {
    take_puts();
    return end.ready() || faulted.load(std::memory_order_relaxed);
  };
  if (!host.waiter.until(ready, {-1, *connection.tail, connection.peer})) return false;
  if (faulted.load(std::memory_order_acquire)) return false;
  std::memcpy(end.slot(), from, bytes);
  end.push(bytes, record);
  return true;
}

Done CommunicatorState::put(const Call& call) {
  OneSided& all = one_sided();
  OneSided::Peer& peer = all.peers[call.peer];
  const std::size_t bytes = call.window < 0 ? 0 : call.record.count * size_of(call.record.type);
  const Window* window = call.window < 0 ? nullptr : &all.windows[call.window];
  const int local = local_of(call.peer);
  std::byte* target = window != nullptr ? reachable(*window, call.peer) : nullptr;
  const bool direct = peer.outgoing == nullptr && (local >= 0) && (bytes == 0 || target != nullptr);
  if (direct) {
    if (bytes > 0) {
      // A peer with a fault may have given its window back: see kernels/host/touch.h.
      const host::Touch touch(host, call.peer != rank);
      if (call.peer != rank && HostAtomics::load_seq_cst(*host.peers[local].faulted) != 0)
        return why_it_ended();
      host::copy_bytes(target + call.offset, call.send, bytes, bytes >= kStreamFrom);
    }
    if (call.peer == rank) {
      ++peer.arrived[call.signal];
      return done();
    }
    const PeerPort& port = host.peers[local];
    std::uint64_t& word = port.signals[host.rank * kSignals + call.signal];
    HostAtomics::store_seq_cst(word, HostAtomics::load_relaxed(word) + 1);
    ring_if_parked<DoorbellAtomics>(*port.parked, *port.bell);
    return done();
  }
  RONDO_CHECK_OK(open_lane(call.peer));
  const PutHeader header{window == nullptr ? kNoWindow : static_cast<std::uint64_t>(call.window),
                         call.offset, bytes, static_cast<std::uint64_t>(call.signal)};
  if (!send_slot(*peer.outgoing, &header, sizeof(header), call.record)) return why_it_ended();
  const auto* from = static_cast<const std::byte*>(call.send);
  for (std::size_t sent = 0; sent < bytes;) {
    const std::size_t part = std::min<std::size_t>(bytes - sent, peer.outgoing->slot_bytes);
    if (!send_slot(*peer.outgoing, from + sent, part, call.record)) return why_it_ended();
    sent += part;
  }
  return done();
}

Done CommunicatorState::wait_signal(const Call& call) {
  OneSided::Peer& peer = one_sided().peers[call.peer];
  const int local = local_of(call.peer);
  if (call.peer != rank) RONDO_CHECK_OK(hear_lane(call.peer));
  const std::uint64_t target = peer.taken[call.signal] + call.record.count;
  const auto ready = [&] {
    take_puts();
    std::uint64_t come = peer.arrived[call.signal];
    if (local >= 0 && call.peer != rank)
      come += HostAtomics::load_acquire(host.self().signals[local * kSignals + call.signal]);
    return come >= target || faulted.load(std::memory_order_relaxed);
  };
  if (!host.waiter.until(ready, {-1, target, call.peer})) return why_it_ended();
  if (faulted.load(std::memory_order_acquire)) return why_it_ended();
  peer.taken[call.signal] = target;
  return windows_are_whole() ? done() : why_it_ended();
}

// The one-sided calls of a group: what is sent first, so that no order of calls can deadlock.
Done CommunicatorState::run_one_sided(std::span<const Call> calls) {
  for (const bool waits : {false, true})
    for (const Call& call : calls) {
      const Collective which = call.record.collective;
      if (!is_one_sided(call) || (which == Collective::kWaitSignal) != waits) continue;
      current = call.record;
      const Done result = waits ? wait_signal(call) : put(call);
      current = CallRecord{};
      RONDO_CHECK_OK(result);
    }
  return flush_links();
}

Result<int> Communicator::register_window(void* memory, std::size_t bytes) {
  CommunicatorState& state = *state_;
  if (state.options.device >= 0) RONDO_CHECK_OK(state.open_device_window(*this, memory, bytes));
  Window::Side mine{reinterpret_cast<std::uintptr_t>(memory), bytes, 0};
  mine.place = state.place_of_window(memory, bytes);
  RONDO_TRY(const auto all, exchange(std::as_bytes(std::span(&mine, 1))));
  Window window;
  for (const auto& blob : all) {
    Window::Side side;
    std::memcpy(&side, blob.data(), sizeof(side));
    window.sides.push_back(side);
  }
  OneSided& kept = state.one_sided();
  if (kept.windows.empty()) kept.withdrawals = state.withdrawals();
  kept.windows.push_back(std::move(window));
  return static_cast<int>(kept.windows.size()) - 1;
}

void Communicator::deregister_window(int window) {
  if (state_->device_windows) state_->device_windows->close(window);
  if (!state_->rma || window < 0 || window >= static_cast<int>(state_->rma->windows.size())) return;
  state_->withdraw_window(state_->rma->windows[window]);
}

std::size_t Communicator::window_bytes(int window, int peer) const {
  return state_->rma->windows[window].sides[peer].bytes;
}

}  // namespace rondo
