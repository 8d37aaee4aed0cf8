// RendezvousServer: a listening socket, and a thread that serves rooms while there are any.
//
// Guarantees: no thread runs while no room is open; stop() ends it within a poll; the thread blocks
// all signals. Cost: one poll(2) over all connections per batch of events.
//
//   RONDO_TRY(auto server, RendezvousServer::open(0));
//   RONDO_CHECK_OK(server->open_room(credentials));
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "transport/bootstrap/doorkeeper.h"
#include "transport/bootstrap/room.h"

namespace rondo::bootstrap {

class RendezvousServer {
 public:
  // Port 0: any free one, on all addresses of both families; and it is kept for the process's life.
  static Result<std::shared_ptr<RendezvousServer>> open(std::uint16_t port);
  // At one address, which is free again as soon as no room is open.
  static Result<std::shared_ptr<RendezvousServer>> open_at(const net::SocketAddress& address);
  ~RendezvousServer();

  std::uint16_t port() const { return port_; }
  // kInProgress: this server closes its address just now; wait for it with stop(), open another.
  Done open_room(const Credentials& credentials);
  // Closes the room of this name if no rank has come.
  void close_room(const Tag& tag);
  void stop();

 private:
  RendezvousServer(net::Socket listener, net::Socket bell, std::uint16_t port, bool temporary);
  void run();
  bool take_orders();  // false: the thread should end
  void turn();
  void ring();

  const std::uint16_t port_;
  const bool temporary_;  // open_at's

  std::mutex mutex_;
  std::vector<Credentials> to_open_;
  std::vector<Tag> to_close_;
  bool running_ = false;
  bool closing_ = false;  // temporary: the address is being given up
  bool stop_ = false;
  std::thread thread_;

  net::Socket bell_;  // eventfd
  // The thread's own.
  std::unique_ptr<Doorkeeper> door_;
  std::vector<std::unique_ptr<Room>> rooms_;
  bool new_rooms_ = false;  // visitors may have been waiting for them: look before polling
};

}  // namespace rondo::bootstrap
