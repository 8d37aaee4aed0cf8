// ServerRegistry: the rendezvous servers of this process.
//
// One server on a free port of the chosen interfaces serves all ids and children of the process.
// One more server per address of NCCL_COMM_ID exists while rank 0 serves there. Guarantees: all
// threads are stopped and joined at exit and when the library is unloaded. They stop at once,
// unless a rendezvous has failed and ranks are still missing: then the server reports the error to
// them for at most five seconds. A forked child starts without servers.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/bootstrap/rendezvous_server.h"

namespace rondo::bootstrap {

class ServerRegistry {
 public:
  // One per process; a forked child gets a new one.
  static ServerRegistry& instance();

  // The server at the addresses of net::own_addresses(met_at), opened at first use.
  Result<std::shared_ptr<RendezvousServer>> common(std::span<const net::SocketAddress> met_at = {});
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
