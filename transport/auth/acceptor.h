// Acceptor: the accepting side of the handshake, for many visitors (unproven connections) at once.
//
// Guarantees: serve() returns only visitors that proved the secret; all others are dropped within a
// second. At most max_unproven() visitors are unproven at a time; further ones wait in the
// kernel's backlog, from whatever address they come. While some wait there, the visitor with the
// least progress is dropped, the oldest first; a dropped peer connects again. Running out of
// descriptors is no error: a visitor is dropped, and accepting pauses. Never blocks, has no thread.
// Cost: two descriptors, and one for each visitor.
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

// Who has proved itself.
struct Arrival {
  net::Socket socket;
  net::SocketAddress from;  // no address: a process of this host, over a Unix socket
  Tag tag{};
  Build build;
  Bytes payload;
  Digest session_key{};
};

// What an acceptor knows of the secret that a tag names.
struct KnownSecret {
  const Digest* known = nullptr;
  bool may_come = false;  // not known yet: the visitor may wait for it
};

class Acceptor {
 public:
  using Clock = std::chrono::steady_clock;
  using SecretOf = std::function<KnownSecret(const Tag&)>;
  struct Options {
    std::string endpoint;  // as connectors name it
    std::function<bool(int fd)>
        admits{};  // looks at a socket before anything is heard; may be empty
  };

  static Result<std::unique_ptr<Acceptor>> open(std::vector<net::Socket> listeners,
                                                Options options);
  ~Acceptor();

  // Accepts, hears and drops; who has arrived comes out. To be called when poll_fd() is readable,
  // at next_deadline(), and when a secret that visitors may wait for has come.
  std::vector<Arrival> serve(const SecretOf& secret_of);
  int poll_fd() const { return events_.get(); }
  Clock::time_point next_deadline() const;
  bool has_deadline() const { return !visitors_.empty() || accept_again_ != Clock::time_point(); }
  std::size_t unproven() const { return visitors_.size(); }
  // Whether, since the last time that it was asked, a visitor who named this secret left when it
  // was challenged: it died, or takes this side for no holder of its secret.
  bool doubted(const Tag& tag);
  // Nobody is served for now: who has not arrived goes, and comes again.
  void drop_visitors();

  // min(64, RLIMIT_NOFILE / 8), at least 1.
  static std::size_t max_unproven();

 private:
  struct Visitor;
  Acceptor(std::vector<net::Socket> listeners, Options options, net::Socket events);
  void hear(Visitor& visitor, const SecretOf& secret_of, std::vector<Arrival>& arrivals);
  void accept(const SecretOf& secret_of, std::vector<Arrival>& arrivals);
  bool make_room(Clock::time_point now);
  void listen(bool wanted);
  void remove_gone();

  const std::vector<net::Socket> listeners_;
  const Options options_;
  const std::size_t max_;
  net::Socket events_;          // epoll: the listeners and all visitors
  std::optional<Tag> doubted_;  // by the last one
  std::vector<std::unique_ptr<Visitor>> visitors_;
  bool listening_ = false;
  Clock::time_point accept_again_{};
};

}  // namespace rondo::auth
