// SPDX-License-Identifier: Apache-2.0
// Acceptor: the accepting side of the handshake, for many visitors (unproven connections) at once.
//
// Guarantees: serve() returns only visitors that proved the secret; it drops all others within one
// second. At most max_unproven() visitors are unproven at a time; others wait in the kernel's
// backlog, whatever their address. While others wait, the visitor with the least progress is
// dropped, the oldest first; a dropped peer connects again. If descriptors run out, a visitor is
// dropped, and accepting pauses; standing() reports when that does not help. Never blocks; has no
// thread. Cost: two descriptors, plus one per visitor.
//
//   RONDO_TRY(auto acceptor, Acceptor::open(std::move(listeners), "bootstrap rank 3"));
//   poll(acceptor->poll_fd()) until acceptor->next_deadline();
//   for (Arrival& arrival : acceptor->serve(secret_of)) ...
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/auth/handshake.h"
#include "transport/socket/address.h"
#include "transport/socket/socket.h"

namespace rondo::auth {

// A connection that has proved the secret.
struct Arrival {
  net::Socket socket;
  net::SocketAddress from;  // no address: a process of this host, over a Unix socket
  Tag tag{};
  Build build;
  Bytes payload;
  Digest session_key{};
};

// The secret that a tag names, as far as the acceptor knows it.
struct KnownSecret {
  const Digest* known = nullptr;
  bool may_come = false;  // null `known`: the visitor may wait for it
};

class Acceptor {
 public:
  using Clock = std::chrono::steady_clock;
  using SecretOf = std::function<KnownSecret(const Tag&)>;
  struct Options {
    std::string endpoint;                  // the name that connectors use
    std::function<bool(int fd)> admits{};  // checks a socket before any byte is read; may be empty
  };

  static Result<std::unique_ptr<Acceptor>> open(std::vector<net::Socket> listeners,
                                                Options options);
  ~Acceptor();

  // Accepts, serves and drops visitors; returns the proven ones. Call it when poll_fd() is
  // readable, at next_deadline(), and when a secret that visitors may wait for becomes known.
  std::vector<Arrival> serve(const SecretOf& secret_of);
  int poll_fd() const { return events_.get(); }
  Clock::time_point next_deadline() const;
  // An error if no connection can be accepted: for a second there was neither a descriptor for one
  // nor a visitor to drop, or the system refuses accept4. OK again after the next one is accepted.
  Status standing() const;
  bool has_deadline() const { return !visitors_.empty() || accept_again_ != Clock::time_point(); }
  std::size_t unproven() const { return visitors_.size(); }
  // True if, since the last call, a visitor that named this secret left after the challenge: it
  // died, or it holds another secret.
  bool doubted(const Tag& tag);
  // Drops all unproven visitors, because serving pauses; they connect again.
  void drop_visitors();

  // min(64, RLIMIT_NOFILE / 8), at least 1.
  static std::size_t max_unproven();

 private:
  struct Visitor;
  Acceptor(std::vector<net::Socket> listeners, Options options, net::Socket events);
  void receive(Visitor& visitor, const SecretOf& secret_of, std::vector<Arrival>& arrivals);
  void accept(const SecretOf& secret_of, std::vector<Arrival>& arrivals);
  void pause(Clock::time_point now, const Error& why, bool lasts);
  bool make_room(Clock::time_point now);
  void listen(bool wanted);
  void remove_gone();

  const std::vector<net::Socket> listeners_;
  const Options options_;
  const std::size_t max_;
  net::Socket events_;          // epoll: the listeners and all visitors
  std::optional<Tag> doubted_;  // tag of the last such visitor
  std::vector<std::unique_ptr<Visitor>> visitors_;
  bool listening_ = false;
  Clock::time_point accept_again_{};
  std::optional<Error> refused_;  // why the last accept4 failed, with nobody to drop
  Clock::time_point refused_since_{};
  bool refusal_lasts_ = false;  // it is no shortage
};

}  // namespace rondo::auth
