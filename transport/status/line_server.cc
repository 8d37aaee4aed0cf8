// SPDX-License-Identifier: Apache-2.0
#include "transport/status/line_server.h"

#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
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

struct LocalEnd {
  bool is_here = false;        // the other end is a socket of this host
  std::optional<uid_t> owner;  // nullopt: it has been closed, so nobody owns it
};

// The line of the other end's socket in a table of connections. A closed one that still sends has
// no inode, and its user reads as 0.
std::optional<LocalEnd> find_in(const char* table, const std::string& ends) {
  const auto text = read_text_file("table of connections", table, kMaxTable);
  const std::size_t at = text.ok() ? text->find(ends) : std::string::npos;
  if (at == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(at + ends.size(), 200));
  std::string state, queues, timer, retries;
  uid_t uid = 0;
  std::uint64_t timeout = 0, inode = 0;
  LocalEnd found{.is_here = true, .owner = std::nullopt};
  if (fields >> state >> queues >> timer >> retries >> uid >> timeout >> inode && inode != 0)
    found.owner = uid;
  return found;
}

// Of the network namespace of this thread.
LocalEnd find_local_end(const net::SocketAddress& peer, const net::SocketAddress& own) {
  const auto ends = [&](bool mapped) {
    return fmt::format(" {} {} ", in_table(peer, mapped), in_table(own, mapped));
  };
  constexpr const char *kTcp = "/proc/thread-self/net/tcp", *kTcp6 = "/proc/thread-self/net/tcp6";
  if (peer.family() == AF_INET6) return find_in(kTcp6, ends(false)).value_or(LocalEnd{});
  auto found = find_in(kTcp, ends(false));
  if (!found) found = find_in(kTcp6, ends(true));
  return found.value_or(LocalEnd{});
}

// Also true if the host's addresses cannot be read: then no address is trusted.
bool is_of_this_host(const net::SocketAddress& address) {
  if (address.loopback()) return true;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return true;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const auto own = net::SocketAddress::from(one->ifa_addr);
    const auto a = own.ip(), b = address.ip();
    if (own.family() == address.family() && std::equal(a.begin(), a.end(), b.begin(), b.end()))
      return true;
  }
  return false;
}

bool is_unix(int socket) {
  int domain = 0;
  socklen_t length = sizeof(domain);
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

Result<Rights> rights_of_user(uid_t uid) {
  if (uid == 0 || uid == geteuid()) return Rights{};
  RONDO_CHECK_OK(shm::may_join_user(uid));
  return Rights{
      fmt::format("user {} may read the status; user {} and root control the job", uid, geteuid())};
}

}  // namespace

Result<Rights> rights_of(int socket) {
  if (is_unix(socket)) {
    ucred peer{};
    socklen_t length = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
      return fail_errno(errno, "cannot read the credentials of a Unix socket's other end");
    return rights_of_user(peer.uid);
  }
  const net::SocketAddress peer = peer_address(socket), own = own_address(socket);
  if (!peer.valid()) return fail(StatusCode::kSystemError, "it has left");
  const LocalEnd end = find_local_end(peer, own);
  if (end.owner) return rights_of_user(*end.owner);
  if (end.is_here) return fail(StatusCode::kSystemError, "{} has been closed", peer.text());
  if (own.loopback() || is_of_this_host(peer))
    return fail(StatusCode::kSystemError, "/proc/net/tcp does not show who owns {}", peer.text());
  return Rights{fmt::format(
      "{} is not of this host; the job is controlled by its user and by root on its hosts",
      peer.text())};
}

std::string LineServer::endpoint_of(std::uint64_t process) {
  return fmt::format("status {:016x}", process);
}

void LineServer::accept_ranks(std::unique_ptr<auth::Acceptor> acceptor,
                              auth::Acceptor::SecretOf secret_of) {
  gates_.push_back({std::move(acceptor), std::move(secret_of)});
}

void LineServer::add_entries(std::vector<pollfd>* entries) const {
  const bool may_accept = Clock::now() >= accept_again_;
  for (const Door& door : doors_) {
    if (may_accept && door.has_room()) entries->push_back({door.listener->get(), POLLIN, 0});
    for (const auto& visitor : door.visitors) visitor->add_entries(entries);
  }
  for (const Gate& gate : gates_)
    if (may_accept && ranks_.has_room()) entries->push_back({gate.acceptor->poll_fd(), POLLIN, 0});
  for (const auto& visitor : ranks_.visitors) visitor->add_entries(entries);
}

Clock::time_point LineServer::next() const {
  auto next = Clock::time_point::max();
  for (const Gate& gate : gates_) next = std::min(next, gate.acceptor->next_deadline());
  if (accept_again_ > Clock::now()) next = std::min(next, accept_again_);
  const auto look_at = [&](const Door& door) {
    for (const auto& visitor : door.visitors) next = std::min(next, visitor->next());
  };
  for (const Door& door : doors_) look_at(door);
  look_at(ranks_);
  return next;
}

void LineServer::step() {
  const auto step_visitors = [&](Door& door) {
    for (const auto& visitor : door.visitors) visitor->step(words_);
    std::erase_if(door.visitors, [](const auto& visitor) { return visitor->has_ended(); });
  };
  for (Door& door : doors_) accept_from(door);
  for (const Gate& gate : gates_) accept_ranks(gate);
  for (Door& door : doors_) step_visitors(door);
  step_visitors(ranks_);
}

void LineServer::accept_ranks(const Gate& gate) {
  for (auth::Arrival& arrival : gate.acceptor->serve(gate.secret_of)) {
    auto link = bootstrap::FramedLink::make(std::move(arrival.socket), arrival.session_key,
                                            auth::Records::Side::kAcceptor);
    if (link.ok()) ranks_.visitors.push_back(std::make_unique<Visitor>(std::move(*link)));
  }
}

// Visitors that are refused count, too: those who come without end must not keep step() from
// returning.
void LineServer::accept_from(Door& door) {
  for (std::size_t count = 0; count < kMaxAccepted && door.has_room(); ++count) {
    auto accepted = net::accept_tcp(*door.listener);
    if (!accepted.ok()) accept_again_ = Clock::now() + kPauseWithoutRoom;
    if (!accepted.ok() || !*accepted) return;
    net::Socket socket = std::move((*accepted)->socket);
    if (door.http) {
      door.visitors.push_back(std::make_unique<Visitor>(std::move(socket), door.http));
    } else if (auto rights = rights_of(socket.get()); rights.ok()) {
      door.visitors.push_back(
          std::make_unique<Visitor>(std::move(socket), std::move(rights->may_not_control)));
    } else {
      RONDO_INFO(kNet, "a process that asked for the status was refused: {}", rights.error().text);
    }
  }
}

}  // namespace rondo::status
