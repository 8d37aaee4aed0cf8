// SPDX-License-Identifier: Apache-2.0
// LineServer: answers lines of text at sockets that listen, questions of ranks of other hosts, and
// HTTP requests.
//
// The owner polls and calls step(); no call waits. Each listening socket, HTTP and the ranks serve
// at most kMaxVisitors (kMaxRequests) at a time, so that no kind of client takes another's place;
// others wait in the kernel's backlog. A turn accepts at most kMaxAccepted from each.
// Guarantees: a process of this host gets an answer only if it runs as this user, as root, or as a
// user that RONDO_UNIX_UIDS names: on Unix sockets by the kernel's credentials, over TCP by the
// owner of the other end's socket, whatever its address. Other hosts get answers where
// NCCL_RAS_ADDR names an address that they reach, but no word that changes the job: that takes this
// user or root on this host, or a rank that has proved the secret. HTTP is served to all that reach
// the socket. Cost: a TCP visitor costs a read of /proc/net/tcp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/auth/acceptor.h"
#include "transport/status/visitor.h"

namespace rondo::status {

// What the process at the other end of an accepted connection may do; an error: it gets no answer.
struct Rights {
  std::string may_not_control{};  // why it may not change the job; "": it may
};
Result<Rights> rights_of(int socket);

class LineServer {
 public:
  static constexpr std::size_t kMaxVisitors = 32;  // of each listening socket, and of ranks
  static constexpr std::size_t kMaxRequests = 16;  // of HTTP
  static constexpr std::size_t kMaxAccepted = 8;   // by step() at each socket
  // The name of a process in the handshake of ranks that ask it.
  static std::string endpoint_of(std::uint64_t process);

  explicit LineServer(std::vector<Word> words) : words_(std::move(words)) {}

  // `listener` must live as long as this object.
  void listen_at(const net::Socket& listener) { doors_.push_back({.listener = &listener}); }
  void serve_http_at(const net::Socket& listener, Visitor::Http answer) {
    doors_.push_back({.listener = &listener, .http = std::move(answer)});
  }
  // Proven connections of ranks, besides those of earlier calls; secret_of: of this process's
  // communicators.
  void accept_ranks(std::unique_ptr<auth::Acceptor> acceptor, auth::Acceptor::SecretOf secret_of);
  bool accepts_ranks() const { return !gates_.empty(); }

  void add_entries(std::vector<pollfd>* entries) const;
  Clock::time_point next() const;
  void step();

 private:
  // A listening socket, and who came by it.
  struct Door {
    const net::Socket* listener = nullptr;  // null: of the ranks
    Visitor::Http http{};                   // empty: it takes lines
    std::vector<std::unique_ptr<Visitor>> visitors{};
    bool has_room() const { return visitors.size() < (http ? kMaxRequests : kMaxVisitors); }
  };
  // Where ranks come in that prove a secret.
  struct Gate {
    std::unique_ptr<auth::Acceptor> acceptor;
    auth::Acceptor::SecretOf secret_of;
  };
  void accept_from(Door& door);
  void accept_ranks(const Gate& gate);

  const std::vector<Word> words_;
  std::vector<Door> doors_;
  Door ranks_;
  std::vector<Gate> gates_;
  Clock::time_point accept_again_{};
};

}  // namespace rondo::status
