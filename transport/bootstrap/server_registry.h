// ServerRegistry: the rendezvous servers of this process.
//
// One server on a free port serves all ids and children of the process; one more per address of
// NCCL_COMM_ID exists while rank 0 serves there. Guarantees: at exit, and when the library is
// unloaded, all threads are stopped and joined; a forked child starts with none of its own.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "transport/bootstrap/rendezvous_server.h"

namespace rondo::bootstrap {

class ServerRegistry {
 public:
  // Of this process; a forked child gets a new one.
  static ServerRegistry& instance();

  // The server on a free port, opened at first use.
  Result<std::shared_ptr<RendezvousServer>> common();
  // Opens a room at the first of the addresses that is one of this host.
  Done serve_at(const std::vector<net::SocketAddress>& addresses, const Credentials& credentials);
  void close_room(const Tag& tag);
  void stop_all();

 private:
  static constexpr std::chrono::seconds kAddressPatience{3};
  static Result<std::shared_ptr<RendezvousServer>> open_when_free(
      const net::SocketAddress& address);

  explicit ServerRegistry(std::uint32_t generation, ServerRegistry* of_parent)
      : generation_(generation), of_parent_(of_parent) {}

  const std::uint32_t generation_;
  ServerRegistry* const of_parent_;  // never used, never freed: its threads are the parent's

  std::mutex mutex_;
  std::shared_ptr<RendezvousServer> common_;
  struct Fixed {
    net::SocketAddress address;
    std::shared_ptr<RendezvousServer> server;
  };
  std::vector<Fixed> fixed_;
};

}  // namespace rondo::bootstrap
