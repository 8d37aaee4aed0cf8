// RemotePuts: puts and signals that the network itself writes into memory of ranks on other hosts,
// while those compute, sleep or wait for something else (net::Link::iput).
//
// Where the network has puts, registering a window registers it with the network, tells all ranks
// its key, and opens a link to each rank of another host: opening one takes both ends. A put goes
// from the caller's buffer where that lies in a window of this rank, else through staging. Behind
// its last byte it writes how many signals of that number this rank has raised, into a word at the
// peer that nobody else writes. Guarantees: the puts and signals of a rank to another take effect
// in order; every wait is supervised, and ends with a fault where the link does. A window whose
// memory the network refuses is reached by none of this, and by slots instead: reaches(). Cost: a
// put from a window is a post and the network's time; staging copies, 1 MiB at once.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "collectives/call.h"
#include "collectives/communicator/rank_context.h"
#include "transport/net/net.h"

namespace rondo {

// What a rank tells all others of its side of a window; as it travels. No bytes: there is no key.
struct WindowKeys {
  std::uint32_t memory_bytes = 0, signals_bytes = 0;
  std::array<std::byte, net::Network::kMostPackedKey> memory{}, signals{};
};

class RemotePuts : RankPart {
 public:
  explicit RemotePuts(RankContext& context) : RankPart(context) {}
  ~RemotePuts();
  RemotePuts(const RemotePuts&) = delete;
  RemotePuts& operator=(const RemotePuts&) = delete;

  // Whether ranks are on other hosts, and the network between them has puts.
  bool usable() const;
  // Registers this rank's side of the next window.
  WindowKeys offer(void* memory, std::size_t bytes);
  // The keys of all ranks, of the window that was offered last; collective.
  Done open(std::span<const WindowKeys> all);
  void close(int window);

  // Whether the network writes there; window -1: signals alone.
  bool reaches(int window, int peer) const;
  // Done once the caller's buffer has left for the peer; flush() waits until it is there.
  Done put(const Call& call);
  Done flush(int peer);
  Done flush();
  // Signals of this number that this peer has raised by the network.
  std::uint64_t raised_by(int peer, int signal) const;

 private:
  struct Peer {
    net::Link* link = nullptr;  // null: it is not reached
    net::RemoteKey words = 0;   // its signals
    std::array<std::uint64_t, kSignals> raised{};
    net::Request last{};
    CallRecord record;     // of it
    bool pending = false;  // it is not known to be done
  };
  struct Window {
    std::span<std::byte> own;
    net::MemoryKey key = 0;             // 0: the network refused it, or it is closed
    std::vector<net::RemoteKey> peers;  // by rank; 0: not reached
  };
  struct Stage {
    std::span<std::byte> bytes;
    int peer = -1;
    net::Request last{};
  };
  net::Network& network() const { return remote_.links()->data_network(); }
  Done add_words();
  Done add_stages();
  Result<net::Link*> opened_link(int peer);
  const Window* own_window_of(std::span<const std::byte> bytes) const;
  Result<Stage*> free_stage();
  Done post(int peer, const net::Put& put);

  std::vector<Peer> peers_;  // by rank; empty before the first window
  std::vector<Window> windows_;
  std::vector<std::uint64_t> words_;  // that peers write: by rank and signal
  net::MemoryKey words_key_ = 0;
  std::vector<std::byte> staging_;
  net::MemoryKey staging_key_ = 0;
  std::array<Stage, 4> stages_{};
  std::size_t next_stage_ = 0;
};

}  // namespace rondo
