// SPDX-License-Identifier: Apache-2.0
// Connector: opens all sockets of one link to one peer, without blocking.
//
// Tries the addresses of the peer in turn, repeatedly. It moves to the next address if no process
// listens, if another process answers, or if no answer arrives in time. The greeting leaves
// together with the proof, so a peer that has accepted this side receives it soon, even if this
// side then computes for a long time.
// Guarantees: ends with all sockets proven, or with a failure: every address refused twice (a rank
// listens before it publishes its address, so the rank has gone), or this process could open no
// socket for five seconds. Waits without limit for a slow peer: deadlines are the caller's.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/auth/handshake.h"
#include "transport/net/net.h"
#include "transport/socket/address.h"
#include "transport/streams/stream.h"

namespace rondo::net {

// SocketOfLink: the handshake payload of a TCP socket's connector: the link, and the socket's index
// in it. The decoder refuses bytes that the encoder would not write.
inline constexpr int kMaxSockets = 16;

struct SocketOfLink {
  LinkName name;
  std::uint16_t index = 0;  // of this socket in its link
  std::uint16_t count = 1;
  std::uint64_t link_id = 0;  // the same for all sockets of one attempt to make a link
};
Bytes encode(const SocketOfLink& socket);
std::optional<SocketOfLink> decode_socket(ByteSpan bytes);

// The name of a rank in the handshake: "tcp links rank 3".
std::string endpoint_of(std::string_view network, std::string_view purpose, int rank);

struct WantedLink {
  LinkName name;
  int sockets = 1;
  bool sealed = false;  // all bytes after the handshake travel as records
  Bytes greeting = {};  // sent first on every socket; only if sealed
};

class Connector {
 public:
  Connector(Poller& poller, const auth::Digest& secret, std::string endpoint, WantedLink wanted,
            std::vector<SocketAddress> candidates);

  bool progress();  // true if something moved
  bool finished() const { return finished_; }
  std::vector<std::unique_ptr<Stream>> take();  // once finished; by socket index
  const std::optional<std::string>& failure() const { return failure_; }
  std::string address() const { return candidates_[candidate_].text(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Attempt {
    std::unique_ptr<Stream> stream;
    auth::Handshake handshake;
    SocketOfLink socket;
    std::optional<auth::Records> records = {};  // set once this side has answered
    Bytes greeting = {};                        // sealed; the unsent rest
    bool agreed = false;
  };

  void start_round();
  void start_socket();
  void give_up_candidate(bool refused, const std::string& why);
  bool advance(Attempt& attempt);
  Status answer(Attempt& attempt);
  IoOutcome greet(Attempt& attempt);

  Poller& poller_;
  auth::Digest secret_;
  std::string endpoint_;
  const WantedLink wanted_;
  SocketOfLink socket_;  // the next socket to open
  std::vector<SocketAddress> candidates_;
  std::size_t candidate_ = 0;
  std::vector<Attempt> attempts_;
  std::chrono::milliseconds deadline_;
  Clock::time_point give_up_at_{};
  Clock::time_point start_at_{};
  std::optional<Clock::time_point> no_socket_since_;
  std::size_t refusals_ = 0;  // consecutive, over all candidates
  bool reached_ = false;      // the peer has proved itself at this candidate
  bool finished_ = false;
  std::optional<std::string> failure_;
};

}  // namespace rondo::net
