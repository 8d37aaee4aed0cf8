// Connector: opens all sockets of one link to one peer, without waiting.
//
// What the peer is to hear first (a greeting) leaves together with the proof: a peer that has let
// this side in has it soon, however long this side computes before it comes back.
// Tries the peer's addresses in turn; an address where nobody, somebody else or nobody that answers
// in time listens gives way to the next one, again and again. Guarantees: ends with all sockets
// proven, or with a failure: when every address refused twice (a rank listens before its address is
// known to others: then it has gone), or when this process could open no socket for five seconds. A
// peer that is slow to answer is waited for without limit: deadlines are the caller's.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "transport/socket/address.h"
#include "transport/streams/socket_of_link.h"
#include "transport/streams/stream.h"

namespace rondo::net {

struct WantedLink {
  LinkName name;
  int sockets = 1;
  bool sealed = false;  // all that follows the handshake travels as records
  Bytes greeting = {};  // the first of it, of every socket; only where sealed
};

class Connector {
 public:
  Connector(Poller& poller, const auth::Digest& secret, std::string endpoint, WantedLink wanted,
            std::vector<SocketAddress> candidates);

  // True if something moved.
  bool progress();
  bool finished() const { return finished_; }
  std::vector<std::unique_ptr<Stream>> take();  // once finished, in their order
  const std::optional<std::string>& failure() const { return failure_; }
  std::string address() const { return candidates_[candidate_].text(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Attempt {
    std::unique_ptr<Stream> stream;
    auth::Handshake handshake;
    SocketOfLink socket;
    std::optional<auth::Records> records = {};  // once it has answered
    Bytes greeting = {};                        // sealed, without what has left
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
  SocketOfLink socket_;  // the next one
  std::vector<SocketAddress> candidates_;
  std::size_t candidate_ = 0;
  std::vector<Attempt> attempts_;
  std::chrono::milliseconds deadline_;
  Clock::time_point give_up_at_{};
  Clock::time_point start_at_{};
  std::optional<Clock::time_point> no_socket_since_;
  std::size_t refusals_ = 0;  // in a row, over all candidates
  bool met_ = false;          // the peer has proved itself at this candidate
  bool finished_ = false;
  std::optional<std::string> failure_;
};

}  // namespace rondo::net
