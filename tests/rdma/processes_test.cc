// SPDX-License-Identifier: Apache-2.0
// Queue pairs of two processes: data, a peer that is killed, a port that goes down.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>

#include "base/fd.h"
#include "tests/rdma/ends.h"
#include "tests/rdma/wires.h"

namespace rondo::verbs {
namespace {

using testing::HasSubstr;

constexpr std::size_t kRoom = 1 << 20;

// What one process sends to the other, over a two-way pipe.
struct Hello {
  std::byte endpoint[64];
  std::size_t endpoint_bytes;
  std::uint64_t room;
  std::uint32_t key;
};

// One process's end of the wire: a device, a pair, and memory that the peer can write to.
struct End {
  std::unique_ptr<DeviceContext> device;
  std::unique_ptr<RegionPool> pool;
  std::unique_ptr<QueuePair> pair;
  Slice room, source;
  Hello peer{};

  bool open(std::size_t which, int socket) {
    const auto ports = guest_ports();
    device = ports.size() > which ? open_port(ports[which]) : nullptr;
    if (device == nullptr) return false;
    pool = std::make_unique<RegionPool>(*device, 8 << 20);
    room = taken(*pool, kRoom), source = taken(*pool, kRoom);
    pair = make_pair_of(*device);
    if (pair == nullptr || !pair->post_receives(64).ok()) return false;
    Hello own{};
    own.room = address_of(room.bytes), own.key = room.remote_key;
    const Bytes blob = serialize(pair->endpoint());
    own.endpoint_bytes = blob.size();
    std::memcpy(own.endpoint, blob.data(), blob.size());
    if (::write(socket, &own, sizeof(own)) != sizeof(own)) return false;
    if (::read(socket, &peer, sizeof(peer)) != sizeof(peer)) return false;
    const auto there = parse_endpoint({peer.endpoint, peer.endpoint_bytes});
    return there.ok() && pair->connect(*there).ok();
  }
  bool write(std::size_t at, std::size_t bytes, std::uint32_t number) {
    const Write writes[] = {{.from = source.bytes.subspan(at, bytes),
                             .local_key = source.local_key,
                             .to = peer.room + at,
                             .remote_key = peer.key,
                             .rings = number,
                             .completes = true}};
    return pair->post(writes).ok();
  }
};

class Processes : public testing::Test {
 protected:
  void SetUp() override {
    if (guest_ports().size() < 2) GTEST_SKIP() << "no two soft-RoCE devices: tests/rdma/guest.sh";
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_ = Fd(ends[0]);
    there_ = Fd(ends[1]);
  }
  void TearDown() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  // Starts a process that runs `body` at end 1 and exits with its status.
  void start(const std::function<int(End&)>& body) {
    child_ = fork();
    if (child_ != 0) return;
    here_.reset();
    End end;
    _exit(end.open(1, there_.get()) ? body(end) : 100);
  }
  int status() {
    int status = 0;
    waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  Fd here_, there_;
  pid_t child_ = -1;
};

std::byte expected(std::size_t i, unsigned turn) { return static_cast<std::byte>(i * 7 + turn); }

TEST_F(Processes, ExchangeDataAndNumbersInManyTurns) {
  constexpr unsigned kTurns = 20, kGo = 1000;
  // Writes a different length to the peer in every turn, and checks what the peer wrote.
  const auto exchange = [](End& end, unsigned own_seed, unsigned peer_seed) -> int {
    unsigned received = 0, sent = 0, released = 0;
    const auto look = [&](End& at) -> int {
      const auto some = completions(*at.device, 1);
      for (const ibv_wc& one : some) {
        if (one.status != IBV_WC_SUCCESS) return 3;
        const unsigned number = ntohl(one.imm_data);
        if (one.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
          ++sent;
        } else if (number >= kGo) {
          if (number != kGo + released++) return 7;
        } else if (number != received || one.byte_len != 1 + received++ * 4099) {
          return 4;
        }
      }
      return some.empty() ? 2 : 0;
    };
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      const std::size_t bytes = 1 + turn * 4099;
      for (std::size_t i = 0; i < bytes; ++i) end.source.bytes[i] = expected(i, turn + own_seed);
      if (!end.write(0, bytes, turn)) return 1;
      // Counted over all turns: one poll can also return the peer's next write.
      while (received <= turn || sent <= turn)
        if (const int wrong = look(end)) return wrong;
      for (std::size_t i = 0; i < bytes; ++i)
        if (end.room.bytes[i] != expected(i, turn + peer_seed)) return 5;
      // The peer must not send its next write before this one.
      const Write go[] = {{.to = end.peer.room, .remote_key = end.peer.key, .rings = kGo + turn}};
      if (!end.pair->post(go).ok()) return 6;
      while (released <= turn)
        if (const int wrong = look(end)) return wrong;
      if (!end.pair->post_receives(2).ok()) return 8;
    }
    return 0;
  };
  start([&](End& end) { return exchange(end, 100, 0); });
  End end;
  ASSERT_TRUE(end.open(0, here_.get()));
  EXPECT_EQ(exchange(end, 0, 100), 0);
  EXPECT_EQ(status(), 0);
}

TEST_F(Processes, APeerThatIsKilledIsReportedByNameOfBothEnds) {
  start([](End&) {
    for (;;) pause();
    return 0;
  });
  End end;
  ASSERT_TRUE(end.open(0, here_.get()));
  ASSERT_TRUE(end.write(0, 4096, 1));
  auto done = completions(*end.device, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  kill(child_, SIGKILL);
  EXPECT_EQ(status(), -1);
  ASSERT_TRUE(end.write(0, 4096, 2));
  ASSERT_TRUE(end.write(0, 4096, 3));
  done = completions(*end.device, 2);  // also of receives, which are flushed
  ASSERT_GE(done.size(), 2u);
  for (const ibv_wc& one : done) EXPECT_NE(one.status, IBV_WC_SUCCESS);
  const std::string text = end.pair->failure_of(done[0]).text;
  EXPECT_THAT(text, HasSubstr("RDMA port rxe0:1 (10.77.0.1), queue pair"));
  EXPECT_THAT(text, HasSubstr("to 10.77.0.2, queue pair"));
  EXPECT_THAT(text, HasSubstr("the peer"));
}

TEST_F(Processes, APortThatGoesDownIsReported) {
  start([](End&) {
    for (;;) pause();
    return 0;
  });
  End end;
  ASSERT_TRUE(end.open(0, here_.get()));
  end.device->read_events();
  EXPECT_FALSE(end.device->port_is_down());
  WireDown wire(0);
  ASSERT_TRUE(wire.is_cut());
  pollfd watched{end.device->event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 20000), 1);
  EXPECT_TRUE(poll_until(
      [&] {
        end.device->read_events();
        return end.device->port_is_down();
      },
      seconds_from_now(20)));
  const auto ports = read_ports();
  EXPECT_FALSE(unusable(ports.at(0)).why.empty());
  const auto chosen = choose_ports(ports, "rxe0");
  ASSERT_FALSE(chosen.ok());
  EXPECT_THAT(chosen.error().text, HasSubstr("rxe0:1 is DOWN"));
  ibv_wc flushed{};
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  EXPECT_THAT(end.pair->failure_of(flushed).text, HasSubstr("the port is down"));
  ASSERT_TRUE(wire.whole_again());
  EXPECT_TRUE(poll_until(
      [&] {
        end.device->read_events();
        return !end.device->port_is_down();
      },
      seconds_from_now(20)));
}

}  // namespace
}  // namespace rondo::verbs
