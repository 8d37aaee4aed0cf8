#include "transport/bootstrap/server_registry.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/process.h"
#include "transport/socket/interfaces.h"

namespace rondo::bootstrap {
namespace {

// Ranks that start together join within this time. Delays the exit of the process no longer.
constexpr std::chrono::seconds kTelling{5};

std::atomic<ServerRegistry*> current{nullptr};

// Its destructor runs at exit and at dlclose. The registries themselves are never destroyed: other
// threads may still use them.
struct StopAtExit {
  ~StopAtExit() { ServerRegistry::instance().stop_all(); }
};

}  // namespace

ServerRegistry& ServerRegistry::instance() {
  const std::uint32_t generation = fork_generation();
  ServerRegistry* registry = current.load(std::memory_order_acquire);
  while (registry == nullptr || registry->generation_ != generation) {
    auto* fresh = new ServerRegistry(generation, registry);
    if (current.compare_exchange_strong(registry, fresh)) {
      registry = fresh;
    } else {
      delete fresh;
    }
  }
  static StopAtExit stop_at_exit;
  return *registry;
}

Result<std::shared_ptr<RendezvousServer>> ServerRegistry::common(
    std::span<const net::SocketAddress> met_at) {
  RONDO_TRY(auto chosen, net::own_addresses(met_at));
  std::lock_guard lock(mutex_);
  for (const Common& one : common_)
    if (one.chosen == chosen) return one.server;
  RONDO_TRY(auto server, RendezvousServer::open(chosen));
  common_.push_back({std::move(chosen), server});
  return server;
}

std::shared_ptr<RendezvousServer> ServerRegistry::at_port(std::uint16_t port) {
  std::lock_guard lock(mutex_);
  for (const Common& one : common_)
    if (one.server->port() == port) return one.server;
  return nullptr;
}

// The previous rendezvous at this address, perhaps in another process, closes its listener shortly
// after its last rank has left. So retry a taken address for a while.
Result<std::shared_ptr<RendezvousServer>> ServerRegistry::open_when_free(
    const net::SocketAddress& address) {
  const std::string taken = std::strerror(EADDRINUSE);
  const auto deadline = std::chrono::steady_clock::now() + kAddressPatience;
  for (;;) {
    auto server = RendezvousServer::open_at(address);
    if (server.ok() || server.error().text.find(taken) == std::string::npos ||
        std::chrono::steady_clock::now() >= deadline)
      return server;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Status ServerRegistry::serve_at(const std::vector<net::SocketAddress>& addresses,
                                const auth::Key& key) {
  std::lock_guard lock(mutex_);
  Error last = fail(StatusCode::kInternalError, "no address");
  for (const auto& address : addresses) {
    const auto known = std::find_if(fixed_.begin(), fixed_.end(),
                                    [&](const Fixed& one) { return one.address == address; });
    if (known != fixed_.end()) {
      if (known->server->open_rendezvous(key).ok()) return ok_status();
      known->server->stop();
      fixed_.erase(known);
    }
    auto server = open_when_free(address);
    if (server.ok()) {
      RONDO_CHECK_OK((*server)->open_rendezvous(key));
      fixed_.push_back({address, std::move(*server)});
      return ok_status();
    }
    last = server.error();
  }
  return fail(last.code,
              "rank 0 cannot serve at the address of NCCL_COMM_ID, or of MASTER_ADDR and "
              "MASTER_PORT: {}; it must be an address of rank 0's host with a free port",
              last.text);
}

void ServerRegistry::close_rendezvous(const auth::Tag& tag) {
  std::lock_guard lock(mutex_);
  for (const Common& one : common_) one.server->close_rendezvous(tag);
}

void ServerRegistry::stop_all() {
  const auto telling = net::Clock::now() + kTelling;
  std::lock_guard lock(mutex_);
  for (const Common& one : common_) one.server->stop(telling);
  for (const Fixed& one : fixed_) one.server->stop(telling);
}

}  // namespace rondo::bootstrap
