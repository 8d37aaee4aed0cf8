// SPDX-License-Identifier: Apache-2.0
#include "transport/launch/id_board.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/log.h"
#include "topology/small_file.h"

namespace rondo::launch {
namespace {

using bootstrap::Digest;
using bootstrap::Secret;
using bootstrap::UniqueId;
using std::chrono::milliseconds;

constexpr auto kPause = milliseconds(2);
constexpr auto kLongestPause = milliseconds(50);
constexpr auto kAnswerTime = milliseconds(1000);
constexpr int kMissedBell = 1000;    // ms: how long the thread may miss that the board has ended
constexpr std::size_t kDigits = 32;  // for the name, and for the random end

std::string hexadecimal(const Digest& digest) {
  std::string text;
  for (const std::byte byte : std::span(digest).first(kDigits / 2))
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

// Without the leading NUL of abstract names.
std::string prefix_of(const Secret& name) {
  return "rondo-launch-" + hexadecimal(name.derive("name").bytes()) + "-";
}

struct Address {
  sockaddr_un address{};
  socklen_t length;
  explicit Address(const std::string& name) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool of_this_user(const Fd& socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

std::vector<std::string> names_with(const std::string& prefix) {
  constexpr std::size_t kMaxBytes = 64 << 20;  // about 100 bytes per socket of this host
  std::vector<std::string> names;
  const auto sockets = topology::read_small_file("/proc/net/unix", kMaxBytes);
  topology::for_each_line(sockets.value_or(""), [&](std::string_view line) {
    const auto at = line.rfind(" @" + prefix);
    if (at == std::string_view::npos) return true;
    const std::string_view name = line.substr(at + 2);
    if (name.size() == prefix.size() + kDigits) names.emplace_back(name);
    return true;
  });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool read_from(const std::string& name, UniqueId* id) {
  const Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const Address address(name);
  if (!socket || connect(socket.get(), address.get(), address.length) != 0) return false;
  if (!of_this_user(socket)) return false;
  pollfd entry{socket.get(), POLLIN, 0};
  if (poll(&entry, 1, static_cast<int>(kAnswerTime.count())) != 1) return false;
  return recv(socket.get(), id->bytes, sizeof(id->bytes), 0) ==
         static_cast<ssize_t>(sizeof(id->bytes));
}

}  // namespace

IdBoard::IdBoard(Fd listener, Fd bell, const UniqueId& id)
    : listener_(std::move(listener)), bell_(std::move(bell)), id_(id) {}

Result<std::unique_ptr<IdBoard>> IdBoard::show(const Secret& name, const UniqueId& id) {
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener || !bell) return fail_errno(errno, "cannot create a Unix socket");
  const Address address(prefix_of(name) + hexadecimal(auth::random_digest()));
  if (bind(listener.get(), address.get(), address.length) != 0 || listen(listener.get(), 4096) != 0)
    return fail_errno(errno, "rank 0 cannot listen on a Unix socket");
  std::unique_ptr<IdBoard> board(new IdBoard(std::move(listener), std::move(bell), id));
  RONDO_TRY(board->thread_,
            Thread::start(
                "the board of a launch's id", [made = board.get()] { made->serve(); },
                [](const Error& error) { RONDO_WARN("{}", error.text); }));
  return board;
}

IdBoard::~IdBoard() {
  if (!thread_.joinable()) return;
  ends_.store(true, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof(one));
  thread_.join();
}

// Never blocks on a visitor: the message fits into the socket buffer.
void IdBoard::serve() const {
  pthread_setname_np(pthread_self(), "rondo-launch");
  pollfd entries[] = {{bell_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  while (poll(entries, 2, kMissedBell) >= 0 || errno == EINTR) {
    if (entries[0].revents != 0 || ends_.load(std::memory_order_relaxed)) return;
    const Fd visitor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!visitor && errno != EAGAIN && errno != EINTR) ::usleep(20'000);  // it would fail again
    if (visitor && of_this_user(visitor))
      (void)send(visitor.get(), id_.bytes, sizeof(id_.bytes), MSG_NOSIGNAL);
  }
}

Result<UniqueId> read_board(const Secret& name, const net::Deadline& deadline) {
  const std::string prefix = prefix_of(name);
  net::Clock::duration pause = kPause;
  for (;;) {
    UniqueId id;
    for (const std::string& shown : names_with(prefix))
      if (read_from(shown, &id)) return id;
    const auto again = std::min(net::Clock::now() + pause, deadline.at);
    pause = std::min<net::Clock::duration>(pause * 3 / 2, kLongestPause);
    const auto waited = net::wait_until(
        {}, again, deadline,
        "waiting for rank 0 on this host (which must have the same RONDO_SECRET and launcher)");
    if (!waited.ok()) return waited.error();
  }
}

}  // namespace rondo::launch
