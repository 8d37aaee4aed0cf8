// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/status_service.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "base/process.h"
#include "base/seconds.h"
#include "base/thread.h"
#include "collectives/status/inspect.h"
#include "collectives/status/ras_report.h"
#include "collectives/trace/metrics.h"
#include "transport/socket/tcp.h"
#include "transport/status/line_server.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxSwept = 8;  // sockets of ended processes, at each start
constexpr std::chrono::milliseconds kAfterAnError{100};
// A program may close all descriptors, the bell too (closefrom, os.closerange). The thread waits
// for the files that they were, so nobody could wake it.
constexpr std::chrono::seconds kMissedBell{1};

class StatusService {
 public:
  static StatusService& instance();

  void enter();
  void leave();
  std::uint16_t port_for_ranks(std::span<const net::SocketAddress> addresses);
  void serve_metrics(bool first_of_host);
  OwnRanks& ranks() { return ranks_; }
  void stop();

 private:
  StatusService(std::uint32_t generation, const StatusService* of_parent)
      : generation_(generation), of_parent_(of_parent) {}

  void end();
  void open_sockets();
  void open_own_socket();
  void inform_of(const Error& error) const;
  void open_ras_sockets(const char* variable);
  void run();
  void turn();
  void accept_ranks(std::unique_ptr<auth::Acceptor> acceptor);
  void open_watched_metrics(const WatchedRanks& watched);
  void take_metrics();
  void ring();

  const std::uint32_t generation_;
  // Of the process that forked this one; keeps it reachable, so that no leak is reported.
  [[maybe_unused]] const StatusService* const of_parent_;
  OwnRanks ranks_;

  std::mutex life_;  // guards the rest, except what the thread alone uses
  int seats_ = 0;
  Thread thread_;
  net::Socket bell_;  // eventfd
  std::optional<status::UserFolder> folder_;
  std::optional<status::StatusSocket> socket_;
  std::vector<net::Socket> ras_sockets_;
  std::uint16_t port_ = 0;
  bool knows_metrics_ = false;  // whether it serves them
  std::atomic<bool> stop_{false};
  std::mutex handover_mutex_;
  std::unique_ptr<auth::Acceptor> handover_;  // for the thread
  std::unique_ptr<trace::Metrics> metrics_handover_;

  // Of the thread.
  std::unique_ptr<status::LineServer> server_;
  std::vector<std::pair<auth::Tag, auth::Digest>> secrets_;
  std::unique_ptr<trace::Metrics> metrics_;
  net::Clock::time_point last_look_{};  // of ranks that are watched
  bool has_own_socket_ = false;         // or has tried to open it
  bool has_opened_metrics_ = false;     // of watched ranks
  bool has_descriptors_ = true;         // false: the program has closed them
};

std::atomic<StatusService*> current_service{nullptr};

// Its destructor runs at exit and at dlclose. The services themselves are never destroyed: other
// threads may still use them.
struct StopServiceAtExit {
  ~StopServiceAtExit() { StatusService::instance().stop(); }
};

StatusService& StatusService::instance() {
  const std::uint32_t generation = fork_generation();
  StatusService* service = current_service.load(std::memory_order_acquire);
  while (service == nullptr || service->generation_ != generation) {
    auto* fresh = new StatusService(generation, service);
    if (current_service.compare_exchange_strong(service, fresh)) {
      service = fresh;
    } else {
      delete fresh;
    }
  }
  static StopServiceAtExit stop_at_exit;
  return *service;
}

void StatusService::enter() {
  std::lock_guard lock(life_);
  if (seats_++ > 0) {
    if (ranks_.watched() != nullptr) ring();  // perhaps since this seat
    return;
  }
  bell_ = net::Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_) return;
  open_sockets();
  stop_ = false;
  has_descriptors_ = true;
  last_look_ = {};
  auto started = Thread::start(
      "the status", [this] { run(); }, [](const Error&) {});
  if (!started.ok()) {
    RONDO_INFO(kInit, "no status of this process: {}", started.error().text);
    return;
  }
  thread_ = std::move(*started);
}

void StatusService::leave() {
  std::lock_guard lock(life_);
  if (--seats_ == 0) end();
}

void StatusService::stop() {
  std::lock_guard lock(life_);
  end();
}

void StatusService::end() {
  stop_ = true;
  ring();
  if (thread_.joinable()) thread_.join();
  thread_ = Thread();
  server_.reset();
  socket_.reset();
  ras_sockets_.clear();
  folder_.reset();
  handover_.reset();
  metrics_handover_.reset();
  metrics_.reset();
  port_ = 0;
  knows_metrics_ = has_own_socket_ = has_opened_metrics_ = false;
  bell_.reset();
}

void StatusService::ring() {
  const std::uint64_t one = 1;
  if (!bell_) return;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof(one));
}

// Who watches a job asked for its status.
void StatusService::inform_of(const Error& error) const {
  if (ranks_.watched() != nullptr) {
    notice(error.text + "; the job goes on, rondo ps reads its memory files");
  } else {
    RONDO_INFO(kInit, "{}", error.text);
  }
}

void StatusService::open_sockets() {
  server_ = std::make_unique<status::LineServer>(status_words({ranks_, folder_}));
  const bool watches = ranks_.watched() != nullptr;
  if (!watches && !env::get_bool("NCCL_RAS_ENABLE")) return;
  open_own_socket();
  open_ras_sockets(watches ? "RONDO_WATCH_RAS" : "NCCL_RAS_ADDR");
  for (const net::Socket& socket : ras_sockets_) server_->listen_at(socket);
}

// The thread, too, where ranks are watched that came after those of a program without status.
void StatusService::open_own_socket() {
  has_own_socket_ = true;
  auto folder = status::UserFolder::open_own();
  if (folder.ok()) {
    folder_ = std::move(*folder);
    folder_->sweep(kMaxSwept);
    auto socket = status::StatusSocket::listen_in(*folder_, {getpid(), this_process()[0]});
    if (socket.ok()) socket_.emplace(std::move(*socket));
    if (!socket.ok()) inform_of(socket.error());
  } else {
    inform_of(folder.error());
  }
  if (socket_) server_->listen_at(socket_->socket());
}

// As in NCCL, all processes of a user on a host share the port, and any of them answers.
void StatusService::open_ras_sockets(const char* variable) {
  const std::string text = env::get_string(variable);
  if (text.empty() || text == "none") return;
  const auto place = net::parse_host_port(text);
  if (!place.ok()) RONDO_INFO(kInit, "{}={}: {}", variable, text, place.error().text);
  if (!place.ok()) return;
  const auto addresses = net::resolve(*place, AF_UNSPEC);
  if (!addresses.ok()) RONDO_INFO(kInit, "{}={}: {}", variable, text, addresses.error().text);
  if (!addresses.ok()) return;
  for (const net::SocketAddress& address : *addresses) {
    auto socket = net::listen_tcp(address, true);
    if (socket.ok()) ras_sockets_.push_back(std::move(*socket));
    if (!socket.ok())
      RONDO_INFO(kInit, "no status over TCP at {}={}: {}", variable, text, socket.error().text);
  }
}

std::uint16_t StatusService::port_for_ranks(std::span<const net::SocketAddress> addresses) {
  std::lock_guard lock(life_);
  const bool answers = ranks_.watched() != nullptr || env::get_bool("NCCL_RAS_ENABLE");
  if (port_ != 0 || !thread_.joinable() || !answers) return port_;
  auto listening = net::listen_at(addresses);
  if (!listening.ok()) RONDO_INFO(kInit, "no status for other hosts: {}", listening.error().text);
  if (!listening.ok()) return 0;
  const std::uint16_t port = listening->addresses.front().port();
  auto acceptor =
      auth::Acceptor::open(std::move(listening->sockets),
                           {.endpoint = status::LineServer::endpoint_of(this_process()[0])});
  if (!acceptor.ok()) RONDO_INFO(kInit, "no status for other hosts: {}", acceptor.error().text);
  if (!acceptor.ok()) return 0;
  std::lock_guard handover_lock(handover_mutex_);
  handover_ = std::move(*acceptor);
  ring();
  return port_ = port;
}

// Metrics are opened here, not by the thread, so that their WARN line precedes the first call.
void StatusService::serve_metrics(bool first_of_host) {
  std::lock_guard lock(life_);
  if (!thread_.joinable() || std::exchange(knows_metrics_, true)) return;
  if (!first_of_host || !trace::Metrics::are_asked_for()) return;
  auto opened = trace::Metrics::open([] { return culprits_on_host(getpid()); });
  std::lock_guard handover_lock(handover_mutex_);
  metrics_handover_ = std::move(opened);
  ring();
}

// ---- the thread ----

void StatusService::run() {
  pthread_setname_np(pthread_self(), "rondo-status");
  while (!stop_ && has_descriptors_) {
    const Status turned = guarded("the status", [&] { return turn(), ok_status(); });
    if (turned.ok()) continue;
    const net::Deadline no_deadline{net::Clock::time_point::max(), {}};
    pollfd bell{bell_.get(), POLLIN, 0};
    (void)net::wait_until({&bell, 1}, net::Clock::now() + kAfterAnError, no_deadline, "").ok();
  }
}

void StatusService::turn() {
  {
    std::lock_guard lock(handover_mutex_);
    if (handover_) accept_ranks(std::move(handover_));
    if (metrics_handover_) take_metrics();
  }
  WatchedRanks* const watched = ranks_.watched();
  if (watched != nullptr && !has_own_socket_) open_own_socket();
  std::vector<pollfd> entries{{bell_.get(), POLLIN, 0}};
  server_->add_entries(&entries);
  const net::Deadline no_deadline{net::Clock::time_point::max(), {}};
  const auto next = metrics_ ? std::min(server_->next(), metrics_->next()) : server_->next();
  const auto now = net::Clock::now();
  const auto next_look = watched == nullptr ? now + kMissedBell : last_look_ + watched->kLookEvery;
  const auto until = std::min({next, next_look, now + kMissedBell});
  const auto waited = net::wait_until(entries, until, no_deadline, "waiting for queries");
  has_descriptors_ = (entries[0].revents & POLLNVAL) == 0;
  if (!waited.ok()) RONDO_INFO(kNet, "{}", waited.error().text);
  if (entries[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto size = ::read(bell_.get(), &count, sizeof(count));
  }
  if (server_->accepts_ranks()) secrets_ = ranks_.secrets();
  server_->step();
  if (metrics_) metrics_->step();
  if (watched == nullptr || net::Clock::now() < next_look) return;
  watched->look();
  if (auto acceptor = watched->take_acceptor()) accept_ranks(std::move(acceptor));
  open_watched_metrics(*watched);
  last_look_ = net::Clock::now();
}

void StatusService::accept_ranks(std::unique_ptr<auth::Acceptor> acceptor) {
  server_->accept_ranks(std::move(acceptor), [this](const auth::Tag& tag) {
    for (const auto& [known, secret] : secrets_)
      if (known == tag) return auth::KnownSecret{&secret, false};
    return auth::KnownSecret{};
  });
}

// Once it is known which process of the host does it.
void StatusService::open_watched_metrics(const WatchedRanks& watched) {
  if (metrics_ || has_opened_metrics_ || !watched.serves_metrics()) return;
  has_opened_metrics_ = true;
  if (!trace::Metrics::are_asked_for()) return;
  auto opened = trace::Metrics::open([] { return culprits_on_host(getpid()); });
  std::lock_guard lock(handover_mutex_);
  metrics_handover_ = std::move(opened);
  if (metrics_handover_) take_metrics();
}

void StatusService::take_metrics() {
  metrics_ = std::move(metrics_handover_);
  if (const net::Socket* const listener = metrics_->listener())
    server_->serve_http_at(*listener, [metrics = metrics_.get()](std::string_view request) {
      return metrics->answer_to(request);
    });
}

}  // namespace

// ---- StatusSeat ----

std::unique_ptr<StatusSeat> StatusSeat::take(JoiningRank rank) {
  if (!env::get_bool("NCCL_RAS_ENABLE") && !trace::Metrics::are_asked_for()) return nullptr;
  StatusService::instance().enter();
  std::unique_ptr<StatusSeat> seat(new StatusSeat(fork_generation()));
  if (rank.size > 1) seat->show_joining(std::move(rank));
  return seat;
}

std::unique_ptr<StatusSeat> StatusSeat::watch(WatchedRanks* watched) {
  StatusService& service = StatusService::instance();
  service.ranks().watch(watched);
  service.enter();
  return std::unique_ptr<StatusSeat>(new StatusSeat(fork_generation()));
}

StatusSeat::~StatusSeat() {
  if (generation_ != fork_generation()) return;  // in a forked child
  if (joining_) StatusService::instance().ranks().remove(joining_.get());
  if (rank_) StatusService::instance().ranks().remove(rank_.get());
  StatusService::instance().leave();
}

std::uint16_t StatusSeat::port_for_ranks(std::span<const net::SocketAddress> addresses) {
  return StatusService::instance().port_for_ranks(addresses);
}

void StatusSeat::serve_metrics(bool first_of_host) {
  StatusService::instance().serve_metrics(first_of_host);
}

void StatusSeat::show_joining(JoiningRank rank) {
  rank.began_ns = now_ns();
  joining_ = std::make_unique<JoiningRank>(std::move(rank));
  StatusService::instance().ranks().add(joining_.get());
}

void StatusSeat::note(const bootstrap::JoinNews& news) {
  if (joining_) StatusService::instance().ranks().note(joining_.get(), news);
}

void StatusSeat::show(OwnRank rank) {
  OwnRanks& ranks = StatusService::instance().ranks();
  rank_ = std::make_unique<const OwnRank>(std::move(rank));
  ranks.add(rank_.get());
  if (joining_) ranks.remove(joining_.get());
  joining_.reset();
}

}  // namespace rondo
