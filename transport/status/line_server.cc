// SPDX-License-Identifier: Apache-2.0
#include "transport/status/line_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "base/log.h"
#include "base/text_file.h"
#include "transport/shm/unix_socket.h"
#include "transport/socket/tcp.h"
#include "transport/status/tcp_traffic.h"

namespace rondo::status {
namespace {

constexpr std::size_t kMaxTable = std::size_t{64} << 20;     // bytes of /proc/net/tcp
constexpr std::chrono::milliseconds kPauseWithoutRoom{100};  // when descriptors have run out

// As /proc/net/tcp and tcp6 write it: 32-bit words of the address as numbers of this machine.
std::string in_table(const net::SocketAddress& address, bool mapped) {
  std::string text = mapped ? "0000000000000000FFFF0000" : "";
  const auto ip = address.ip();
  for (std::size_t i = 0; i + 4 <= ip.size(); i += 4)
    text += fmt::format("{:02X}{:02X}{:02X}{:02X}", ip[i + 3], ip[i + 2], ip[i + 1], ip[i]);
  return text + fmt::format(":{:04X}", address.port());
}

// The owner of the socket at the other end of a connection on a loopback address.
std::optional<uid_t> owner_of(const net::SocketAddress& peer, const net::SocketAddress& own) {
  const auto find = [&](const char* table, bool mapped) -> std::optional<uid_t> {
    const auto text = read_text_file("table of connections", table, kMaxTable);
    if (!text.ok()) return std::nullopt;
    const std::string theirs = in_table(peer, mapped), ours = in_table(own, mapped);
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retries;
      uid_t uid = 0;
      if (fields >> number >> local >> remote >> state >> queues >> timer >> retries >> uid &&
          local == theirs && remote == ours)
        return uid;
    }
    return std::nullopt;
  };
  if (peer.family() == AF_INET6) return find("/proc/self/net/tcp6", false);
  const auto found = find("/proc/self/net/tcp", false);
  return found ? found : find("/proc/self/net/tcp6", true);
}

bool is_unix(int socket) {
  int domain = 0;
  socklen_t length = sizeof(domain);
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

}  // namespace

Status may_ask(int socket) {
  if (is_unix(socket)) {
    ucred peer{};
    socklen_t length = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == 0)
      return ok_status();
    return shm::may_join(socket);
  }
  const net::SocketAddress peer = peer_address(socket), own = own_address(socket);
  if (peer.valid() && !peer.loopback()) return ok_status();
  const auto owner = peer.valid() ? owner_of(peer, own) : std::nullopt;
  if (!owner)
    return fail(StatusCode::kSystemError, "/proc/net/tcp does not show who owns {}", peer.text());
  return *owner == 0 ? ok_status() : shm::may_join_user(*owner);
}

std::string LineServer::endpoint_of(std::uint64_t process) {
  return fmt::format("status {:016x}", process);
}

void LineServer::accept_ranks(std::unique_ptr<auth::Acceptor> acceptor,
                              auth::Acceptor::SecretOf secret_of) {
  acceptor_ = std::move(acceptor);
  secret_of_ = std::move(secret_of);
}

void LineServer::add_entries(std::vector<pollfd>* entries) const {
  if (visitors_.size() < kMaxVisitors && Clock::now() >= accept_again_) {
    for (const net::Socket* listener : listeners_) entries->push_back({listener->get(), POLLIN, 0});
    if (http_listener_ != nullptr) entries->push_back({http_listener_->get(), POLLIN, 0});
    if (acceptor_) entries->push_back({acceptor_->poll_fd(), POLLIN, 0});
  }
  for (const auto& visitor : visitors_) visitor->add_entries(entries);
}

Clock::time_point LineServer::next() const {
  auto next = acceptor_ ? acceptor_->next_deadline() : Clock::time_point::max();
  if (accept_again_ > Clock::now()) next = std::min(next, accept_again_);
  for (const auto& visitor : visitors_) next = std::min(next, visitor->next());
  return next;
}

void LineServer::step() {
  accept();
  for (const auto& visitor : visitors_) visitor->step(words_);
  std::erase_if(visitors_, [](const auto& visitor) { return visitor->has_ended(); });
}

void LineServer::accept() {
  for (const net::Socket* listener : listeners_) accept_from(*listener);
  if (http_listener_ != nullptr) accept_from(*http_listener_);
  if (!acceptor_) return;
  for (auth::Arrival& arrival : acceptor_->serve(secret_of_)) {
    auto link = bootstrap::FramedLink::make(std::move(arrival.socket), arrival.session_key,
                                            auth::Records::Side::kAcceptor);
    if (link.ok()) visitors_.push_back(std::make_unique<Visitor>(std::move(*link)));
  }
}

void LineServer::accept_from(const net::Socket& listener) {
  while (visitors_.size() < kMaxVisitors) {
    auto accepted = net::accept_tcp(listener);
    if (!accepted.ok()) accept_again_ = Clock::now() + kPauseWithoutRoom;
    if (!accepted.ok() || !*accepted) return;
    net::Socket socket = std::move((*accepted)->socket);
    if (&listener == http_listener_) {
      visitors_.push_back(std::make_unique<Visitor>(std::move(socket), http_));
    } else if (const Status may = may_ask(socket.get()); may.ok()) {
      visitors_.push_back(std::make_unique<Visitor>(std::move(socket)));
    } else {
      RONDO_INFO(kNet, "a process that asked for the status was refused: {}", may.error().text);
    }
  }
}

}  // namespace rondo::status
