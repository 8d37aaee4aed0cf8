// RendezvousServer: a listening socket, and a thread that serves rendezvous while any are open.
//
// Guarantees: no thread runs while no rendezvous is open. stop() ends the thread within one poll,
// or once failed rendezvous have reported to all ranks. The thread blocks all signals. Cost: one
// poll(2) over all connections per batch of events.
//
//   RONDO_TRY(auto server, RendezvousServer::open(addresses));
//   RONDO_CHECK_OK(server->open_rendezvous(key));
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "base/thread.h"
#include "transport/auth/acceptor.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/socket/tcp.h"

namespace rondo::bootstrap {

class RendezvousServer {
 public:
  // Listens at all these addresses, at one free port, as long as the process lives.
  static Result<std::shared_ptr<RendezvousServer>> open(std::vector<net::SocketAddress> addresses);
  // Listens at one address. Closes it as soon as no rendezvous is open.
  static Result<std::shared_ptr<RendezvousServer>> open_at(const net::SocketAddress& address);
  ~RendezvousServer();

  // All have the same port.
  const std::vector<net::SocketAddress>& addresses() const { return addresses_; }
  std::uint16_t port() const { return addresses_.front().port(); }
  // kInProgress: this server is closing its address; wait with stop(), then open another server.
  Status open_rendezvous(const auth::Key& key);
  // Closes the rendezvous with this tag if no rank has joined.
  void close_rendezvous(const auth::Tag& tag);
  // Failed rendezvous continue until all ranks have received the error, at most until `telling`.
  void stop(net::Clock::time_point telling = {});

 private:
  RendezvousServer(std::vector<net::SocketAddress> addresses, bool temporary)
      : addresses_(std::move(addresses)), temporary_(temporary) {}
  static Result<std::shared_ptr<RendezvousServer>> serve(net::Listening listening, bool temporary);
  void run();
  bool take_orders();  // false: the thread should end
  void turn();
  void ring();

  const std::vector<net::SocketAddress> addresses_;
  const bool temporary_;  // made by open_at()

  std::mutex mutex_;
  std::vector<auth::Key> to_open_;
  std::vector<auth::Tag> to_close_;
  bool running_ = false;
  bool closing_ = false;  // temporary_: the address is being closed
  bool stop_ = false;
  net::Clock::time_point telling_until_{};  // valid once stop_
  Thread thread_;

  net::Socket bell_;  // eventfd
  // Used by the thread only.
  std::unique_ptr<auth::Acceptor> acceptor_;
  std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
  bool new_ones_ = false;  // visitors may be waiting for them: serve before polling
};

}  // namespace rondo::bootstrap
