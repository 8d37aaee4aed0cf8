// SPDX-License-Identifier: Apache-2.0
// RemotePuts: puts and signals that the network writes into memory of ranks on other hosts, while
// those ranks compute, sleep or wait (net::Link::iput).
//
// If the network supports puts, registering a window registers it with the network, sends its key
// to all ranks, and opens a link to each rank of another host; both ends must take part in opening
// a link. A put reads the caller's buffer directly if it is in memory of this rank that the network
// has registered, else through staging. Windows of ranks on GPUs may be GPU memory
// (collectives/gpu/rank/window_memory.h); what such a rank puts is then already registered, or
// lent.
//
// After the last byte, a put writes this rank's number of raised signals of this index into a word
// at the peer that no other rank writes. Guarantees: puts and signals between two ranks take effect
// in order; every wait is supervised, and ends with a fault if the link ends. A window whose memory
// the network refuses is reached only through slots: see reaches(). Cost: a put from a window is a
// post and the network's time; staging copies, at most 1 MiB at a time.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/rank/rank_context.h"
#include "transport/net/net.h"

namespace rondo {

// One way to register this rank's side of a window with the network.
struct WindowSide {
  net::Memory memory;       // memory that holds the window
  std::uint64_t begin = 0;  // offset of the window in it
  bool sent = true;         // puts may read from it
  bool written = true;      // peers may write into it
};

// Keys of a rank's side of a window, as sent to all ranks. 0 bytes: no key.
struct WindowKeys {
  std::uint32_t memory_bytes = 0, signals_bytes = 0;
  std::uint64_t begin = 0;  // offset of the window in the memory of the key
  std::array<std::byte, net::Network::kMaxPackedKey> memory{}, signals{};
};

class RemotePuts : RankPart {
 public:
  explicit RemotePuts(RankContext& context) : RankPart(context) {}
  ~RemotePuts();
  RemotePuts(const RemotePuts&) = delete;
  RemotePuts& operator=(const RemotePuts&) = delete;

  // True if some ranks are on other hosts and the network between them supports puts.
  bool usable() const;
  // Registers this rank's side of the next window in the first of these ways that the network
  // accepts. `why_not`: if it accepts none, the reason for each.
  WindowKeys offer(std::span<const WindowSide> ways, std::string* why_not);
  // Takes the keys of all ranks for the window that was offered last; collective.
  Status open(std::span<const WindowKeys> all);
  // The same without waiting: false while links are still opening; call it again.
  Result<bool> try_open(std::span<const WindowKeys> all);
  int newest() const { return static_cast<int>(windows_.size()) - 1; }
  void close(int window);
  // Registers memory of this rank that puts may read. It must stay valid until take_back().
  Status lend(std::span<std::byte> memory);
  void take_back();
  // True if puts read these bytes without staging.
  bool sends_from(std::span<const std::byte> bytes) const { return key_with(bytes) != 0; }

  // True if the network can write to that window of the peer; window -1: signals only.
  bool reaches(int window, int peer) const;
  // put() returns when the caller's buffer has been sent; flush() when the data is at the peer.
  Status put(const Call& call);
  Status flush(int peer);
  Status flush();
  // Number of signals with this index that the peer raised by the network.
  std::uint64_t raised_by(int peer, int signal) const;
  // After a wait for signals: makes earlier data visible to a GPU.
  Status flush_windows() const;

 private:
  struct Peer {
    net::Link* link = nullptr;  // null: not reachable
    net::RemoteKey words = 0;   // key of the peer's signal words
    std::array<std::uint64_t, kSignals> raised{};
    net::Request last{};
    CallRecord record;     // record of the last put
    bool pending = false;  // the last put is not known to be complete
  };
  struct Window {
    std::span<std::byte> sent;          // memory of this rank that puts may read
    net::MemoryKey key = 0;             // 0: refused by the network, or closed
    std::function<Status()> flush;      // makes peers' writes visible; empty: not needed
    std::vector<net::RemoteKey> peers;  // by rank; 0: not reached
    std::vector<std::uint64_t> begins;  // by rank: offset of its window in that memory
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
  std::deque<Window> windows_;  // addresses must not change
  std::span<std::byte> lent_{};
  net::MemoryKey lent_key_ = 0;
  std::vector<std::uint64_t> words_;  // written by peers; by rank and signal
  net::MemoryKey words_key_ = 0;
  std::vector<std::byte> staging_;
  net::MemoryKey staging_key_ = 0;
  std::array<Stage, 4> stages_{};
  std::size_t next_stage_ = 0;
};

}  // namespace rondo
