// SPDX-License-Identifier: Apache-2.0
// OneSidedCalls: puts and signals of a rank: its windows, its signals, and puts in progress.
//
// A put writes directly into the peer's window if this process can reach it: a rank of the same
// process, or window memory of ncclMemAlloc on the same host. Otherwise its data travels in slots
// of a separate lane, and the target stores it when the target is inside a one-sided call. Between
// hosts the network writes it if it can; the target does nothing (RemotePuts).
//
// Each (source, index) has two signal words: one in memory that others write, and one for signals
// that arrived through the lane. They only increase; waits count what they consumed. Puts and
// signals between two ranks arrive in order: after one used the lane, all later ones to that rank
// use it; but between hosts, signals alone use the lane until there is a window. Cost: a direct put
// is a copy, a store and a check of the peer's doorbell; a put by the network completes when the
// data is in the peer's memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "collectives/context/call.h"
#include "collectives/host/remote_puts.h"
#include "collectives/rank/rank_context.h"
#include "collectives/watchdog/supervisor.h"
#include "collectives/watchdog/withdrawal.h"
#include "transport/connection.h"

namespace rondo {

// Memory that all ranks registered together; its number is the same on every rank.
struct Window {
  struct Side {
    std::uint64_t pointer;  // address in its own process
    std::uint64_t bytes;
    std::uint64_t place;  // place in its process's arena, or 0
  };
  bool alive = true;
  std::vector<Side> sides;  // by rank
};

// First slot of a put through the lane; `bytes` of data follow.
struct PutHeader {
  std::uint64_t window;  // kNoWindow: a signal alone
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t signal;
};
inline constexpr std::uint64_t kNoWindow = ~std::uint64_t{0};

class OneSidedCalls : RankPart {
 public:
  OneSidedCalls(RankContext& context, Supervisor& supervisor, Withdrawal& withdrawal)
      : RankPart(context),
        supervisor_(supervisor),
        withdrawal_(withdrawal),
        remote_puts_(context) {}

  // Runs the one-sided calls of a group. Sends first, so that no order of calls can deadlock.
  Status run(std::span<const Call> calls);

  // offer_of: this rank's side of a window. add_window: all sides; the same window on all ranks.
  struct Offer {
    Window::Side side;
    WindowKeys keys;
  };
  Offer offer_of(void* memory, std::size_t bytes);
  Result<int> add_window(std::span<const Offer> offers);
  std::size_t window_bytes(int window, int peer) const;
  // True if withdrawing a window must not run beside this rank's calls: it drives the network.
  bool withdraws_by_network() const { return remote_puts_.usable(); }
  RemotePuts& remote_puts() { return remote_puts_; }
  // No peer puts into it any more; after a fault, a peer may be stopped in the middle of a put.
  void withdraw(int window);
  void withdraw_all();

 private:
  struct Peer {
    std::array<std::uint64_t, kSignals> arrived{};  // signals received through the lane
    std::array<std::uint64_t, kSignals> taken{};    // signals consumed by waits, of both words
    Connection* outgoing = nullptr;                 // the lane, after its first use
    Connection* incoming = nullptr;
    PutHeader now{};  // the put being received
    std::uint64_t received = 0;
    bool receiving = false;
    bool by_lane = false;  // a put with data used the lane
  };

  Peer& peer_at(int rank);
  std::byte* reachable(const Window& window, int peer) const;
  std::uint64_t place_of(const void* memory, std::size_t bytes) const;
  std::uint64_t withdrawals() const;
  bool windows_are_whole();
  Status open_lane(int peer);
  Status receive_lane(int peer);
  bool take_puts();
  bool take_puts_of(int peer);
  bool refuse_put(int peer, const char* what);
  bool send_slot(Connection& connection, const void* from, std::size_t bytes,
                 const CallRecord& record);
  bool by_network(const Peer& peer, const Call& call) const;
  Status put(const Call& call);
  Status put_by_lane(Peer& peer, const Window* window, const Call& call, std::size_t bytes);
  Status wait_signal(const Call& call);
  void record(const Call& call);

  Supervisor& supervisor_;
  Withdrawal& withdrawal_;
  RemotePuts remote_puts_;
  std::vector<Peer> peers_;  // by rank; empty before the first one-sided call
  std::vector<Window> windows_;
  std::uint64_t withdrawals_ = 0;  // value when windows were last whole
};

}  // namespace rondo
