// SPDX-License-Identifier: Apache-2.0
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
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
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
  // members: of survivors (session.h). Follows an earlier rendezvous of theirs.
  Status open_rendezvous(const auth::Key& key, std::vector<int> members = {});
  // Closes the rendezvous with this tag if no rank has joined, or if survivors have
  // failed to meet before their rank 0 came.
  void close_rendezvous(const auth::Tag& tag);
  // Failed rendezvous continue until all ranks have received the error, at most until `reporting`.
  void stop(net::Clock::time_point reporting = {});

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
  struct Order {
    auth::Key key;
    std::vector<int> members;
  };
  std::vector<Order> to_open_;
  std::vector<auth::Tag> to_close_;
  bool running_ = false;
  bool closing_ = false;  // temporary_: the address is being closed
  bool stop_ = false;
  net::Clock::time_point reporting_until_{};  // valid once stop_
  Thread thread_;

  net::Socket bell_;  // eventfd
  // Used by the thread only.
  std::unique_ptr<auth::Acceptor> acceptor_;
  std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
  bool new_ones_ = false;  // visitors may be waiting for them: serve before polling
};

// ServerRegistry: the rendezvous servers of this process.
//
// One server on a free port of the chosen interfaces serves all ids and children of the process.
// One more server per address of NCCL_COMM_ID exists while rank 0 serves there. Guarantees: all
// threads are stopped and joined at exit and when the library is unloaded. They stop at once,
// unless a rendezvous has failed and ranks are still missing: then the server reports the error to
// them for at most five seconds. A forked child starts without servers.
class ServerRegistry {
 public:
  // One per process; a forked child gets a new one.
  static ServerRegistry& instance();

  // The server at the addresses of net::own_addresses(rendezvous_at), opened at first use.
  Result<std::shared_ptr<RendezvousServer>> common(
      std::span<const net::SocketAddress> rendezvous_at = {});
  // The common server with this port; null: none in this process.
  std::shared_ptr<RendezvousServer> at_port(std::uint16_t port);
  // Opens a rendezvous at the first of the addresses that belongs to this host.
  Status serve_at(const std::vector<net::SocketAddress>& addresses, const auth::Key& key);
  void close_rendezvous(const auth::Tag& tag);
  void stop_all();

 private:
  static constexpr std::chrono::seconds kAddressPatience{3};
  static Result<std::shared_ptr<RendezvousServer>> open_when_free(
      const net::SocketAddress& address);

  explicit ServerRegistry(std::uint32_t generation, ServerRegistry* of_parent)
      : generation_(generation), of_parent_(of_parent) {}

  const std::uint32_t generation_;
  ServerRegistry* const of_parent_;  // never used or freed: its threads run in the parent

  std::mutex mutex_;
  struct Common {
    std::vector<net::SocketAddress> chosen;
    std::shared_ptr<RendezvousServer> server;
  };
  std::vector<Common> common_;  // one per choice of addresses
  struct Fixed {
    net::SocketAddress address;
    std::shared_ptr<RendezvousServer> server;
  };
  std::vector<Fixed> fixed_;
};

}  // namespace rondo::bootstrap
