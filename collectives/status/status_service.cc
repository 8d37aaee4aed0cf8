// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/status_service.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/thread.h"
#include "collectives/status/gather.h"
#include "collectives/status/monitor.h"
#include "collectives/status/ras_report.h"
#include "transport/socket/tcp.h"
#include "transport/status/line_server.h"

namespace rondo {
namespace {

using status::Conversation;
using status::Reply;
using status::Word;

constexpr std::size_t kMaxSwept = 8;  // sockets of ended processes, at each start
constexpr std::chrono::milliseconds kAfterAnError{100};

std::string version_text(std::int64_t code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

bool equals_ignoring_case(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return (a | 0x20) == (b | 0x20); });
}

class StatusService {
 public:
  static StatusService& instance();

  void enter();
  void leave();
  std::uint16_t port_for_ranks(std::span<const net::SocketAddress> addresses);
  OwnRanks& ranks() { return ranks_; }
  void stop();

 private:
  StatusService(std::uint32_t generation, const StatusService* of_parent)
      : generation_(generation), of_parent_(of_parent) {}

  void end();
  void open_sockets();
  void open_ras_sockets();
  std::vector<Word> words();
  std::unique_ptr<Gather> gather(Gather::Scope scope, double timeout_seconds,
                                 Gather::Write write) const;
  Reply set_timeout(Conversation& conversation, std::string_view value) const;
  Reply set_format(Conversation& conversation, std::string_view value) const;
  Reply report(const Conversation& conversation, bool verbose) const;
  Reply monitor(const Conversation& conversation, std::string_view groups) const;
  Reply view(const Conversation& conversation, std::string_view scope) const;
  void run();
  void turn();
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
  std::atomic<bool> stop_{false};
  std::mutex handover_mutex_;
  std::unique_ptr<auth::Acceptor> handover_;  // for the thread

  // Of the thread.
  std::unique_ptr<status::LineServer> server_;
  std::vector<std::pair<auth::Tag, auth::Digest>> secrets_;
  RasFacts facts_;
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
  if (seats_++ > 0) return;
  bell_ = net::Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_) return;
  facts_.version = version_text(env::get_int("RONDO_VERSION_CODE"));
  open_sockets();
  stop_ = false;
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
  port_ = 0;
  bell_.reset();
}

void StatusService::ring() {
  const std::uint64_t one = 1;
  if (!bell_) return;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof(one));
}

void StatusService::open_sockets() {
  server_ = std::make_unique<status::LineServer>(words());
  auto folder = status::UserFolder::open_own();
  if (folder.ok()) {
    folder_ = std::move(*folder);
    folder_->sweep(kMaxSwept);
    auto socket = status::StatusSocket::listen_in(*folder_, {getpid(), this_process()[0]});
    if (socket.ok()) socket_.emplace(std::move(*socket));
    if (!socket.ok()) RONDO_INFO(kInit, "{}", socket.error().text);
  } else {
    RONDO_INFO(kInit, "{}", folder.error().text);
  }
  if (socket_) server_->listen_at(socket_->socket());
  open_ras_sockets();
  for (const net::Socket& socket : ras_sockets_) server_->listen_at(socket);
}

// As in NCCL, all processes of a user on a host share the port, and any of them answers.
void StatusService::open_ras_sockets() {
  const std::string text = env::get_string("NCCL_RAS_ADDR");
  if (text == "none") return;
  const auto place = net::parse_host_port(text);
  if (!place.ok()) RONDO_INFO(kInit, "NCCL_RAS_ADDR={}: {}", text, place.error().text);
  if (!place.ok()) return;
  const auto addresses = net::resolve(*place, AF_UNSPEC);
  if (!addresses.ok()) RONDO_INFO(kInit, "NCCL_RAS_ADDR={}: {}", text, addresses.error().text);
  if (!addresses.ok()) return;
  for (const net::SocketAddress& address : *addresses) {
    auto socket = net::listen_tcp(address, true);
    if (socket.ok()) ras_sockets_.push_back(std::move(*socket));
    if (!socket.ok())
      RONDO_INFO(kInit, "no status over TCP at NCCL_RAS_ADDR={}: {}", text, socket.error().text);
  }
}

std::uint16_t StatusService::port_for_ranks(std::span<const net::SocketAddress> addresses) {
  std::lock_guard lock(life_);
  if (port_ != 0 || !thread_.joinable()) return port_;
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

// ---- the thread ----

void StatusService::run() {
  pthread_setname_np(pthread_self(), "rondo-status");
  while (!stop_) {
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
    if (handover_)
      server_->accept_ranks(std::move(handover_), [this](const auth::Tag& tag) {
        for (const auto& [known, secret] : secrets_)
          if (known == tag) return auth::KnownSecret{&secret, false};
        return auth::KnownSecret{};
      });
  }
  std::vector<pollfd> entries{{bell_.get(), POLLIN, 0}};
  server_->add_entries(&entries);
  const net::Deadline no_deadline{net::Clock::time_point::max(), {}};
  const auto waited = net::wait_until(entries, server_->next(), no_deadline, "waiting for queries");
  if (!waited.ok()) RONDO_INFO(kNet, "{}", waited.error().text);
  if (entries[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto size = ::read(bell_.get(), &count, sizeof(count));
  }
  if (server_->accepts_ranks()) secrets_ = ranks_.secrets();
  server_->step();
}

// ---- the words ----

// A longer word stands before one that it begins with.
std::vector<Word> StatusService::words() {
  return {
      {"CLIENT PROTOCOL",
       [](Conversation&, std::string_view) { return Reply{"SERVER PROTOCOL 2\n"}; }},
      {"TIMEOUT",
       [this](Conversation& client, std::string_view value) { return set_timeout(client, value); }},
      {"SET FORMAT",
       [this](Conversation& client, std::string_view value) { return set_format(client, value); }},
      {"VERBOSE STATUS",
       [this](Conversation& client, std::string_view) { return report(client, true); }},
      {"STATUS", [this](Conversation& client, std::string_view) { return report(client, false); }},
      {"MONITOR",
       [this](Conversation& client, std::string_view groups) { return monitor(client, groups); }},
      {"VIEW",
       [this](Conversation& client, std::string_view scope) { return view(client, scope); }},
  };
}

std::unique_ptr<Gather> StatusService::gather(Gather::Scope scope, double timeout_seconds,
                                              Gather::Write write) const {
  return std::make_unique<Gather>(ranks_, folder_ ? &*folder_ : nullptr, scope, timeout_seconds,
                                  std::move(write));
}

Reply StatusService::set_timeout(Conversation& conversation, std::string_view value) const {
  double seconds = -1;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, seconds);
  if (read.ec != std::errc() || read.ptr != end || !(seconds >= 0) || std::isinf(seconds))
    return {fmt::format("ERROR: Invalid timeout value {}\n", printable(value))};
  conversation.timeout_seconds = seconds;
  return {"OK\n"};
}

Reply StatusService::set_format(Conversation& conversation, std::string_view value) const {
  const bool json = equals_ignoring_case(value, "json");
  if (!json && !equals_ignoring_case(value, "text"))
    return {fmt::format("ERROR: Invalid format {}\n", printable(value))};
  conversation.json = json;
  return {"OK\n"};
}

Reply StatusService::report(const Conversation& conversation, bool verbose) const {
  const bool json = conversation.json;
  const auto write = [facts = facts_, json, verbose](const JobView& view) {
    return json ? ras_json(view, facts) : ras_text(view, facts, verbose);
  };
  return {"", false, gather(Gather::kJob, conversation.timeout_seconds, write)};
}

Reply StatusService::monitor(const Conversation& conversation, std::string_view groups) const {
  std::string unknown;
  const MonitorGroups wanted = MonitorGroups::parse(groups, &unknown);
  if (!unknown.empty()) return {fmt::format("ERROR: Invalid event group '{}'\n", unknown)};
  const auto start = [this, seconds = conversation.timeout_seconds](Gather::Write write) {
    return gather(Gather::kJob, seconds, std::move(write));
  };
  return {"OK\n", false, std::make_unique<Monitor>(wanted, conversation.json, start)};
}

Reply StatusService::view(const Conversation& conversation, std::string_view scope) const {
  constexpr std::string_view kScopes[] = {"OWN", "HOST", "JOB"};
  const auto write = [](const JobView& view) { return view.to_json().text(-1) + '\n'; };
  for (int i = 0; i < 3; ++i)
    if (equals_ignoring_case(scope, kScopes[i]))
      return {"", false,
              gather(static_cast<Gather::Scope>(i), conversation.timeout_seconds, write)};
  return {fmt::format("ERROR: VIEW OWN, HOST or JOB, not {}\n", printable(scope))};
}

}  // namespace

// ---- StatusSeat ----

std::unique_ptr<StatusSeat> StatusSeat::take() {
  if (!env::get_bool("NCCL_RAS_ENABLE")) return nullptr;
  StatusService::instance().enter();
  return std::unique_ptr<StatusSeat>(new StatusSeat(fork_generation()));
}

StatusSeat::~StatusSeat() {
  if (generation_ != fork_generation()) return;  // in a forked child
  if (rank_) StatusService::instance().ranks().remove(rank_.get());
  StatusService::instance().leave();
}

std::uint16_t StatusSeat::port_for_ranks(std::span<const net::SocketAddress> addresses) {
  return StatusService::instance().port_for_ranks(addresses);
}

void StatusSeat::show(OwnRank rank) {
  rank_ = std::make_unique<const OwnRank>(std::move(rank));
  StatusService::instance().ranks().add(rank_.get());
}

}  // namespace rondo
