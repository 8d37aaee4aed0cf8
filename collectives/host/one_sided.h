// OneSided: what a rank keeps for puts and signals: its windows, signals, and puts under way.
//
// A put writes straight into the peer's window where this process can reach it: a rank of the same
// process, or window memory of ncclMemAlloc on the same host. Otherwise its bytes travel in slots
// of a lane of their own and their target stores them whenever it is inside a one-sided call
// itself. Signals come in two words a (source, index): one in shared memory, one for what came by
// the lane; they only grow, and waiting takes from them. Puts and signals of one rank arrive in
// order: once one has gone by the lane, all later ones to that rank do. Cost: a direct put is a
// copy, a store and a look at the peer's doorbell.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/types.h"
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

struct OneSided {
  explicit OneSided(int ranks) : peers(static_cast<std::size_t>(ranks)) {}

  struct Peer {
    std::array<std::uint64_t, kSignals> arrived{};  // by the lane
    std::array<std::uint64_t, kSignals> taken{};    // by waits, of both kinds
    Connection* outgoing = nullptr;                 // the lane, once it was used
    Connection* incoming = nullptr;
    PutHeader now{};  // being received
    std::uint64_t received = 0;
    bool receiving = false;
  };
  std::vector<Peer> peers;  // by rank
  std::vector<Window> windows;
  std::uint64_t withdrawals = 0;  // of memory of this process, when windows were last whole
};

}  // namespace rondo
