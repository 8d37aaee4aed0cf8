// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/rendezvous_server.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/log.h"
#include "base/process.h"
#include "transport/bootstrap/connect.h"
#include "transport/socket/interfaces.h"

namespace rondo::bootstrap {
namespace {

constexpr std::chrono::milliseconds kAfterAnError{10};  // an immediate retry would fail too
// A program may close all descriptors, the bell too: see StatusService.
constexpr std::chrono::seconds kMissedBell{1};

}  // namespace

RendezvousServer::~RendezvousServer() { stop(); }

Result<std::shared_ptr<RendezvousServer>> RendezvousServer::serve(net::Listening listening,
                                                                  bool temporary) {
  RONDO_CHECK_OK(auth::Records::prepare());
  std::shared_ptr<RendezvousServer> made(
      new RendezvousServer(std::move(listening.addresses), temporary));
  made->bell_ = net::Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->bell_) return fail_errno(errno, "cannot create an eventfd");
  RONDO_TRY(made->acceptor_, auth::Acceptor::open(std::move(listening.sockets),
                                                  {.endpoint = std::string(kRendezvous)}));
  return made;
}

Result<std::shared_ptr<RendezvousServer>> RendezvousServer::open(
    std::vector<net::SocketAddress> addresses) {
  RONDO_TRY(net::Listening listening, net::listen_at(addresses));
  return serve(std::move(listening), false);
}

Result<std::shared_ptr<RendezvousServer>> RendezvousServer::open_at(
    const net::SocketAddress& address) {
  net::Listening listening;
  RONDO_TRY(net::Socket listener, net::listen_tcp(address));
  listening.sockets.push_back(std::move(listener));
  listening.addresses = {address};
  return serve(std::move(listening), true);
}

Status RendezvousServer::open_rendezvous(const auth::Key& key, std::vector<int> members) {
  std::lock_guard lock(mutex_);
  if (stop_ || closing_) return fail(StatusCode::kInProgress, "the rendezvous server is ending");
  to_open_.push_back({key, std::move(members)});
  if (running_) return ring(), ok_status();
  if (thread_.joinable()) thread_.join();  // it has left its loop
  auto started = Thread::start(
      "the rendezvous", [this] { run(); }, [](const Error&) {});
  if (!started.ok()) return to_open_.pop_back(), started.error();
  thread_ = std::move(*started);
  running_ = true;
  return ok_status();
}

void RendezvousServer::close_rendezvous(const auth::Tag& tag) {
  std::lock_guard lock(mutex_);
  if (!running_) return;
  std::erase_if(to_open_, [&](const Order& order) { return order.key.tag == tag; });
  to_close_.push_back(tag);
  ring();
}

void RendezvousServer::stop(net::Clock::time_point reporting) {
  Thread thread;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    reporting_until_ = reporting;
    ring();
    std::swap(thread, thread_);
  }
  if (thread.joinable()) thread.join();
}

void RendezvousServer::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof(one));
}

bool RendezvousServer::take_orders() {
  std::lock_guard lock(mutex_);
  // First, because what is still to be opened was ordered after them.
  for (const auth::Tag& tag : to_close_)
    std::erase_if(rendezvous_, [&](const auto& rendezvous) {
      return rendezvous->key().tag == tag &&
             (rendezvous->empty() || rendezvous->failed_before_rank_zero());
    });
  to_close_.clear();
  for (Order& order : to_open_) {
    std::vector<Arrival> waiting;
    for (const auto& earlier : rendezvous_)
      if (!order.members.empty() && earlier->key().tag == order.key.tag)
        std::ranges::move(earlier->follow(), std::back_inserter(waiting));
    rendezvous_.push_back(std::make_unique<Rendezvous>(order.key, std::move(order.members)));
    for (Arrival& arrival : waiting) rendezvous_.back()->admit(std::move(arrival));
  }
  new_ones_ = !to_open_.empty();
  to_open_.clear();
  if (stop_) {
    const bool over = net::Clock::now() >= reporting_until_;
    std::erase_if(rendezvous_,
                  [over](const auto& rendezvous) { return over || !rendezvous->owes_verdict(); });
  }
  if (!rendezvous_.empty()) return true;
  running_ = false;
  if (temporary_) {
    closing_ = true;
    acceptor_.reset();
  } else {
    acceptor_->drop_visitors();
  }
  return false;
}

void RendezvousServer::run() {
  pthread_setname_np(pthread_self(), "rondo-meet");
  for (bool goes_on = true; goes_on;) {
    const Status turned = guarded("the rendezvous", [&] {
      goes_on = take_orders();
      if (goes_on) turn();
      return ok_status();
    });
    if (turned.ok()) continue;
    // Ranks that were only partly served would wait without limit. So close all rendezvous: their
    // ranks see the end. Orders that were not taken stay queued.
    rendezvous_.clear();
    (void)guarded("the rendezvous", [&] {
      RONDO_WARN("{}", turned.error().text);
      return ok_status();
    }).ok();
    std::this_thread::sleep_for(kAfterAnError);
  }
}

void RendezvousServer::turn() {
  std::vector<pollfd> entries = {{bell_.get(), POLLIN, 0}};
  entries.push_back({acceptor_->poll_fd(), POLLIN, 0});
  auto next = acceptor_->next_deadline();
  for (const auto& rendezvous : rendezvous_) {
    rendezvous->collect(entries);
    next = std::min(next, rendezvous->next_deadline());
  }
  {
    std::lock_guard lock(mutex_);
    if (stop_) next = std::min(next, reporting_until_);
  }
  next = std::min<net::Clock::time_point>(next, net::Clock::now() + kMissedBell);
  if (new_ones_) next = net::Clock::now();
  const net::Deadline no_deadline{net::Clock::time_point::max(), {}};
  if (auto waited = net::wait_until(entries, next, no_deadline, "serving a rendezvous");
      !waited.ok()) {
    RONDO_WARN("{}", waited.error().text);
    std::this_thread::sleep_for(kAfterAnError);
    return;
  }
  if ((entries[0].revents & POLLNVAL) != 0) std::this_thread::sleep_for(kAfterAnError);
  if (entries[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto size = ::read(bell_.get(), &count, sizeof(count));
  }
  std::span<const pollfd> rest = std::span<const pollfd>(entries).subspan(2);
  for (const auto& rendezvous : rendezvous_) {
    const auto entries_of_it = rest.first(rendezvous->entries());
    rest = rest.subspan(entries_of_it.size());
    rendezvous->serve(entries_of_it);
  }
  const auto rendezvous_of = [&](const auth::Tag& tag) -> Rendezvous* {
    for (const auto& rendezvous : rendezvous_)
      if (rendezvous->open() && rendezvous->key().tag == tag) return rendezvous.get();
    return nullptr;
  };
  auto arrivals = acceptor_->serve([&](const auth::Tag& tag) -> auth::KnownSecret {
    Rendezvous* rendezvous = rendezvous_of(tag);
    return {rendezvous != nullptr ? &rendezvous->key().secret : nullptr, true};
  });
  for (auth::Arrival& proven : arrivals) {
    Rendezvous* const rendezvous = rendezvous_of(proven.tag);
    auto arrival = rendezvous != nullptr ? Arrival::from_proven(std::move(proven)) : std::nullopt;
    if (arrival) rendezvous->admit(std::move(*arrival));
  }
  if (const Status able = acceptor_->standing(); !able.ok())
    for (const auto& rendezvous : rendezvous_) rendezvous->refuse(able.error());
  for (const auto& rendezvous : rendezvous_)
    if (rendezvous->open() && acceptor_->doubted(rendezvous->key().tag)) rendezvous->note_doubt();
  std::erase_if(rendezvous_, [](const auto& rendezvous) { return rendezvous->finished(); });
}

namespace {

// Ranks that start together join within this time. Delays the exit of the process no longer.
constexpr std::chrono::seconds kReporting{5};

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
    std::span<const net::SocketAddress> rendezvous_at) {
  RONDO_TRY(auto chosen, net::own_addresses(rendezvous_at));
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
  const auto reporting = net::Clock::now() + kReporting;
  std::lock_guard lock(mutex_);
  for (const Common& one : common_) one.server->stop(reporting);
  for (const Fixed& one : fixed_) one.server->stop(reporting);
}

}  // namespace rondo::bootstrap
