// RendezvousServer: a listening socket, and a thread that serves rendezvous while there are any.
//
// Guarantees: no thread runs while none is open; stop() ends it within a poll, or once those that
// failed have told all ranks; the thread blocks all signals. Cost: one poll(2) over all connections
// per batch of events.
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
  // At all of these addresses, with a free port, which is kept for the process's life.
  static Result<std::shared_ptr<RendezvousServer>> open(std::vector<net::SocketAddress> addresses);
  // At one address, which is free again as soon as none is open.
  static Result<std::shared_ptr<RendezvousServer>> open_at(const net::SocketAddress& address);
  ~RendezvousServer();

  // Where it listens; all have one port.
  const std::vector<net::SocketAddress>& addresses() const { return addresses_; }
  std::uint16_t port() const { return addresses_.front().port(); }
  // kInProgress: this server closes its address just now; wait for it with stop(), open another.
  Status open_rendezvous(const auth::Key& key);
  // Closes the rendezvous of this name if no rank has come.
  void close_rendezvous(const auth::Tag& tag);
  // Rendezvous that failed go on until all ranks have come and heard why, at most until `telling`.
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
  const bool temporary_;  // open_at's

  std::mutex mutex_;
  std::vector<auth::Key> to_open_;
  std::vector<auth::Tag> to_close_;
  bool running_ = false;
  bool closing_ = false;  // temporary: the address is being given up
  bool stop_ = false;
  net::Clock::time_point telling_until_{};  // once stop_
  Thread thread_;

  net::Socket bell_;  // eventfd
  // The thread's own.
  std::unique_ptr<auth::Acceptor> acceptor_;
  std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
  bool new_ones_ = false;  // visitors may have been waiting for them: look before polling
};

}  // namespace rondo::bootstrap
