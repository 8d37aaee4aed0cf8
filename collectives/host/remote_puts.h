// RemotePuts: puts and signals that the network itself writes into memory of ranks on other hosts,
// while those compute, sleep or wait for something else (net::Link::iput).
//
// Where the network has puts, registering a window registers it with the network, tells all ranks
// its key, and opens a link to each rank of another host: opening one takes both ends. A put goes
// from the caller's buffer where that lies in memory of this rank that the network has, else
// through staging. Windows of ranks on GPUs may be memory of theirs
// (collectives/gpu/window_memory.h), and what such a rank puts is then there already, or lent.
// Behind its last byte it writes how many signals of that number this rank has raised, into a word
// at the peer that nobody else writes. Guarantees: the puts and signals of a rank to another take
// effect in order; every wait is supervised, and ends with a fault where the link does. A window
// whose memory the network refuses is reached by none of this, and by slots instead: reaches().
// Cost: a put from a window is a post and the network's time; staging copies, 1 MiB at once.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/call.h"
#include "collectives/communicator/rank_context.h"
#include "transport/net/net.h"

namespace rondo {

// How the network may be told of this rank's side of a window.
struct WindowSide {
  net::Memory memory;       // holds the window,
  std::uint64_t begin = 0;  // which begins here in it
  bool sent = true;         // puts may leave from it,
  bool written = true;      // and peers may write into it
};

// What a rank tells all others of its side of a window; as it travels. No bytes: there is no key.
struct WindowKeys {
  std::uint32_t memory_bytes = 0, signals_bytes = 0;
  std::uint64_t begin = 0;  // of the window, in the memory of the key
  std::array<std::byte, net::Network::kMaxPackedKey> memory{}, signals{};
};

class RemotePuts : RankPart {
 public:
  explicit RemotePuts(RankContext& context) : RankPart(context) {}
  ~RemotePuts();
  RemotePuts(const RemotePuts&) = delete;
  RemotePuts& operator=(const RemotePuts&) = delete;

  // Whether ranks are on other hosts, and the network between them has puts.
  bool usable() const;
  // Registers this rank's side of the next window, in the first of these ways that the network
  // takes; `why_not`: what each came to, where it takes none.
  WindowKeys offer(std::span<const WindowSide> ways, std::string* why_not);
  // The keys of all ranks, of the window that was offered last; collective.
  Status open(std::span<const WindowKeys> all);
  // The same for a caller that must not wait: false while links are still opening; call it again.
  Result<bool> try_open(std::span<const WindowKeys> all);
  int newest() const { return static_cast<int>(windows_.size()) - 1; }
  void close(int window);
  // Memory of this rank's that puts may leave from, and that lives until it is taken back.
  Status lend(std::span<std::byte> memory);
  void take_back();
  // Whether puts leave from there, without staging.
  bool sends_from(std::span<const std::byte> bytes) const { return key_with(bytes) != 0; }

  // Whether the network writes there; window -1: signals alone.
  bool reaches(int window, int peer) const;
  // Status once the caller's buffer has left for the peer; flush() waits until it is there.
  Status put(const Call& call);
  Status flush(int peer);
  Status flush();
  // Signals of this number that this peer has raised by the network.
  std::uint64_t raised_by(int peer, int signal) const;
  // After a wait for signals: a GPU sees what came before them.
  Status flush_windows() const;

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
    std::span<std::byte> sent;          // of this rank, from where puts may leave
    net::MemoryKey key = 0;             // 0: the network refused it, or it is closed
    std::function<Status()> flush;      // of what peers have written; empty: it needs none
    std::vector<net::RemoteKey> peers;  // by rank; 0: not reached
    std::vector<std::uint64_t> begins;  // by rank: of its window in that memory
  };
  struct Stage {
    std::span<std::byte> bytes;
    int peer = -1;
    net::Request last{};
  };
  net::Network& network() const { return remote_.links()->data_network(); }
  Status add_words();
  Status add_stages();
  Result<WindowKeys> register_side(const WindowSide& side);
  Result<int> first_unopened() const;
  Status take_keys(std::span<const WindowKeys> all);
  net::MemoryKey key_with(std::span<const std::byte> bytes) const;
  Result<Stage*> free_stage();
  Status post(int peer, const net::Put& put);

  std::vector<Peer> peers_;     // by rank; empty before the first window
  std::deque<Window> windows_;  // they stay where they are
  std::span<std::byte> lent_{};
  net::MemoryKey lent_key_ = 0;
  std::vector<std::uint64_t> words_;  // that peers write: by rank and signal
  net::MemoryKey words_key_ = 0;
  std::vector<std::byte> staging_;
  net::MemoryKey staging_key_ = 0;
  std::array<Stage, 4> stages_{};
  std::size_t next_stage_ = 0;
};

}  // namespace rondo
