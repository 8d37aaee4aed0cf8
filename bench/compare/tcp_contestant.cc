// SPDX-License-Identifier: Apache-2.0
// Bare TCP: the cost of messages between two hosts without any library. Both ranks spin on their
// sockets.
//
//   tcp_contestant FOLDER      RANK 0 and 1, MASTER_ADDR and MASTER_PORT in the environment
//
// It answers loop.h's all_reduce by a ping-pong: a call is one message, the direction alternates,
// and each rank adds the received message to its own data. It answers barrier by an exchange: both
// ranks send, then both receive.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <thread>

#include "bench/compare/loop.h"

namespace {

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(5);
}

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value != nullptr) return value;
  std::fprintf(stderr, "tcp_contestant: %s is not set\n", name);
  std::exit(2);
}

int joined(int rank) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(std::atoi(variable("MASTER_PORT"))));
  if (inet_pton(AF_INET, variable("MASTER_ADDR"), &place.sin_addr) != 1) give_up("MASTER_ADDR");
  const auto* const address = reinterpret_cast<const sockaddr*>(&place);
  const int on = 1;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (rank == 0) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, sizeof place) != 0 || listen(fd, 1) != 0) give_up("listen");
    fd = accept(fd, nullptr, nullptr);
  } else {
    for (int tries = 100; connect(fd, address, sizeof place) != 0;) {
      if (--tries == 0) give_up("connect");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      close(fd);
      fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) give_up("accept");
  return fd;
}

class PingPong {
 public:
  explicit PingPong(int rank) : socket_(joined(rank)), turn_(rank) {}
  float* allocate(std::size_t bytes) { return compare::allocate_plain(bytes); }
  void release(float* memory) { std::free(memory); }

  void calls(const compare::Task& task, int count) {
    came_.resize(task.count);
    const bool exchanges = task.operation == compare::Operation::kBarrier;
    for (int i = 0; i < count; ++i, ++turn_) {
      const bool sends = turn_ % 2 == 0;
      if (exchanges || sends)
        move(task.send, task.count, [](auto... of) { return send(of..., MSG_NOSIGNAL); });
      if (exchanges || !sends)
        move(came_.data(), task.count, [](auto... of) { return recv(of..., 0); });
    }
    if (exchanges) return;
    std::transform(came_.begin(), came_.end(), task.send, task.receive, std::plus<>());
  }

 private:
  template <class Way>
  void move(float* memory, std::size_t count, const Way& way) const {
    auto* const bytes = reinterpret_cast<char*>(memory);
    for (std::size_t done = 0; done < count * sizeof(float);) {
      const ssize_t some = way(socket_, bytes + done, count * sizeof(float) - done);
      if (some == 0 || (some < 0 && errno != EAGAIN)) give_up("the other rank");
      if (some > 0) done += static_cast<std::size_t>(some);
    }
  }

  const int socket_;
  unsigned turn_;
  std::vector<float> came_;
};

}  // namespace

int main(int argc, char** argv) {
  const int rank = std::atoi(variable("RANK"));
  PingPong ranks(rank);
  rondo::bench::bind_to_cpu(rank);
  compare::serve(ranks, argc > 1 ? argv[1] : ".", rank, 2);
  return 0;
}
