// OneSidedCalls: puts and signals of a rank: its windows, its signals, and puts under way.
//
// A put writes straight into the peer's window where this process can reach it: a rank of the same
// process, or window memory of ncclMemAlloc on the same host. Otherwise its bytes travel in slots
// of a lane of their own and their target stores them whenever it is inside a one-sided call
// itself. Between hosts the network writes them where it can, and the target does nothing
// (RemotePuts). Signals come in two words a (source, index): one in memory that others write, one
// for what came by the lane; they only grow, and waiting takes from them. Puts and signals of one
// rank arrive in order: once one has gone by the lane, all later ones to that rank do; but between
// hosts signals alone go by it until there is a window. Cost: a direct put is a copy, a store and a
// look at the peer's doorbell; one by the network ends when the peer's memory has it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "collectives/call.h"
#include "collectives/communicator/rank_context.h"
#include "collectives/host/remote_puts.h"
#include "collectives/watchdog/supervisor.h"
#include "collectives/watchdog/withdrawal.h"
#include "transport/connection.h"

namespace rondo {

// Memory that all ranks have registered together; the same number on every rank.
struct Window {
  struct Side {
    std::uint64_t pointer;  // in its own process
    std::uint64_t bytes;
    std::uint64_t place;  // in its process's arena, or 0
  };
  bool alive = true;
  std::vector<Side> sides;  // by rank
};

// The first slot of a put along the lane; `bytes` of data follow.
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

  // The one-sided calls of a group: what is sent first, so that no order of calls can deadlock.
  Status run(std::span<const Call> calls);

  // Memory of this rank as its window's side; then all sides, the same window on all ranks.
  struct Offer {
    Window::Side side;
    WindowKeys keys;
  };
  Offer offer_of(void* memory, std::size_t bytes);
  Result<int> add_window(std::span<const Offer> offers);
  std::size_t window_bytes(int window, int peer) const;
  // Whether withdrawing a window is not to be beside calls of this rank: its network moves then.
  bool withdraws_by_network() const { return remote_puts_.usable(); }
  RemotePuts& remote_puts() { return remote_puts_; }
  // No peer puts into it any more; after a fault one may stand still in the middle of a put.
  void withdraw(int window);
  void withdraw_all();

 private:
  struct Peer {
    std::array<std::uint64_t, kSignals> arrived{};  // by the lane
    std::array<std::uint64_t, kSignals> taken{};    // by waits, of both kinds
    Connection* outgoing = nullptr;                 // the lane, once it was used
    Connection* incoming = nullptr;
    PutHeader now{};  // being received
    std::uint64_t received = 0;
    bool receiving = false;
    bool by_lane = false;  // a put with bytes has gone by it
  };

  Peer& peer_at(int rank);
  std::byte* reachable(const Window& window, int peer) const;
  std::uint64_t place_of(const void* memory, std::size_t bytes) const;
  std::uint64_t withdrawals() const;
  bool windows_are_whole();
  Status open_lane(int peer);
  Status hear_lane(int peer);
  bool take_puts();
  bool take_puts_of(int peer);
  bool refuse_put(int peer, const char* what);
  bool send_slot(Connection& connection, const void* from, std::size_t bytes,
                 const CallRecord& record);
  bool by_network(const Peer& peer, const Call& call) const;
  Status put(const Call& call);
  Status put_by_lane(Peer& peer, const Window* window, const Call& call, std::size_t bytes);
  Status wait_signal(const Call& call);

  Supervisor& supervisor_;
  Withdrawal& withdrawal_;
  RemotePuts remote_puts_;
  std::vector<Peer> peers_;  // by rank; empty before the first one-sided call
  std::vector<Window> windows_;
  std::uint64_t withdrawals_ = 0;  // of memory of this process, when windows were last whole
};

}  // namespace rondo
