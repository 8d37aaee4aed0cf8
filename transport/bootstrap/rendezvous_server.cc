#include "transport/bootstrap/rendezvous_server.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/bootstrap/connect.h"

namespace rondo::bootstrap {
namespace {

constexpr std::chrono::milliseconds kAfterAnError{10};  // an immediate retry would fail too

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

Status RendezvousServer::open_rendezvous(const auth::Key& key) {
  std::lock_guard lock(mutex_);
  if (stop_ || closing_) return fail(StatusCode::kInProgress, "the rendezvous server is ending");
  to_open_.push_back(key);
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
  to_close_.push_back(tag);
  ring();
}

void RendezvousServer::stop(net::Clock::time_point telling) {
  Thread thread;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    telling_until_ = telling;
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
  for (const auth::Key& one : to_open_) rendezvous_.push_back(std::make_unique<Rendezvous>(one));
  new_ones_ = !to_open_.empty();
  to_open_.clear();
  for (const auth::Tag& tag : to_close_)
    std::erase_if(rendezvous_, [&](const auto& rendezvous) {
      return rendezvous->key().tag == tag && rendezvous->empty();
    });
  to_close_.clear();
  if (stop_) {
    const bool over = net::Clock::now() >= telling_until_;
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
    if (stop_) next = std::min(next, telling_until_);
  }
  if (new_ones_) next = net::Clock::now();
  const net::Deadline forever{net::Clock::time_point::max(), {}};
  if (auto waited = net::wait_until(entries, next, forever, "serving a rendezvous"); !waited.ok()) {
    RONDO_WARN("{}", waited.error().text);
    std::this_thread::sleep_for(kAfterAnError);
    return;
  }
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
  for (const auto& rendezvous : rendezvous_)
    if (rendezvous->open() && acceptor_->doubted(rendezvous->key().tag)) rendezvous->note_doubt();
  std::erase_if(rendezvous_, [](const auto& rendezvous) { return rendezvous->finished(); });
}

}  // namespace rondo::bootstrap
