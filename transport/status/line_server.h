// SPDX-License-Identifier: Apache-2.0
// LineServer: answers lines of text at sockets that listen, questions of ranks of other hosts, and
// HTTP requests.
//
// The owner polls and calls step(); no call waits. At most kMaxVisitors are served at a time,
// others wait in the kernel's backlog. Guarantees: only processes of this user, of root, and of
// users that RONDO_UNIX_UIDS names get an answer: on Unix sockets by the kernel's credentials, over
// TCP on a loopback address by the owner of the other end's socket. A peer over TCP on any other
// address is served: its owner cannot be known here (NCCL_RAS_ADDR chose that address). HTTP is
// served to all that reach the socket.
#pragma once

#include <memory>
#include <vector>

#include "transport/auth/acceptor.h"
#include "transport/status/visitor.h"

namespace rondo::status {

// Whether the process at the other end of an accepted connection may get answers; if not, why.
Status may_ask(int socket);

class LineServer {
 public:
  static constexpr std::size_t kMaxVisitors = 32;
  // The name of a process in the handshake of ranks that ask it.
  static std::string endpoint_of(std::uint64_t process);

  explicit LineServer(std::vector<Word> words) : words_(std::move(words)) {}

  // `listener` must live as long as this object.
  void listen_at(const net::Socket& listener) { listeners_.push_back(&listener); }
  void serve_http_at(const net::Socket& listener, Visitor::Http answer) {
    http_listener_ = &listener;
    http_ = std::move(answer);
  }
  // Proven connections of ranks; secret_of: of this process's communicators.
  void accept_ranks(std::unique_ptr<auth::Acceptor> acceptor, auth::Acceptor::SecretOf secret_of);
  bool accepts_ranks() const { return acceptor_ != nullptr; }

  void add_entries(std::vector<pollfd>* entries) const;
  Clock::time_point next() const;
  void step();

 private:
  void accept();
  void accept_from(const net::Socket& listener);

  const std::vector<Word> words_;
  std::vector<const net::Socket*> listeners_;
  const net::Socket* http_listener_ = nullptr;
  Visitor::Http http_;
  std::unique_ptr<auth::Acceptor> acceptor_;
  auth::Acceptor::SecretOf secret_of_;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  Clock::time_point accept_again_{};
};

}  // namespace rondo::status
