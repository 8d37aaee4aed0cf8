// SPDX-License-Identifier: Apache-2.0
// Requests for memory between processes, and replies that arrive too late; here the processes are
// threads of this one.
#include "collectives/gpu/agree/process_meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tests/support/rank_seat.h"

namespace rondo::gpu {
namespace {

using namespace std::chrono_literals;

constexpr int kProcesses = 3;

std::pair<net::Socket, net::Socket> make_pair_of_sockets() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {net::Socket(ends[0]), net::Socket(ends[1])};
}

class MemoryExchanges : public testing::Test {
 protected:
  void SetUp() override {
    segment = std::move(ControlSegment::create({kProcesses, kProcesses, 1 << 16})).value();
    std::vector<std::vector<ProcessSockets>> sockets(kProcesses);
    for (auto& of : sockets) of.resize(kProcesses);
    for (int a = 0; a < kProcesses; ++a)
      for (int b = 0; b < kProcesses; ++b)
        if (a != b) std::tie(sockets[a][b].own, sockets[b][a].theirs) = make_pair_of_sockets();
    for (int p = 0; p < kProcesses; ++p)
      processes.push_back(std::make_unique<MemoryExchange>(*segment, p, std::vector<int>{0, 1, 2},
                                                           std::move(sockets[p])));
  }
  static net::Deadline long_deadline() {
    return net::Deadline::of(std::chrono::seconds(static_cast<int>(test::kLongestWait)));
  }
  // Reply that process 0 gets from another one that answers `address`, or does not answer.
  auto ask(int process, std::uint64_t address, bool answers = true) {
    std::thread other([&] {
      if (answers) answer(process, address);
    });
    auto reply = processes[0]->ask(process, {MemoryNote::kMap}, {},
                                   answers ? long_deadline() : net::Deadline::of(200ms));
    other.join();
    return reply;
  }
  void answer(int process, std::uint64_t address) {
    processes[process]->serve(0, [&](MemoryNote& asked, const MemoryHandle&) {
      asked.address = address;
      return MemoryHandle{};
    });
  }

  std::unique_ptr<ControlSegment> segment;
  std::vector<std::unique_ptr<MemoryExchange>> processes;
};

TEST_F(MemoryExchanges, GiveEachQuestionItsOwnAnswer) {
  for (std::uint64_t address = 1; address < 5; ++address)
    for (const int process : {1, 2}) {
      const auto reply = ask(process, 10 * address + static_cast<std::uint64_t>(process));
      ASSERT_TRUE(reply.ok()) << reply.error().text;
      EXPECT_EQ(reply->address, 10 * address + static_cast<std::uint64_t>(process));
    }
}

TEST_F(MemoryExchanges, AnAnswerIsWaitedForWhileTheRequestIsOpen) {
  int looks = 0;
  std::thread other([&] {
    const auto third_time = [&](MemoryNote& asked, const MemoryHandle&) {
      asked.address = 5;
      return ++looks < 3 ? std::nullopt : std::optional<Result<MemoryHandle>>(MemoryHandle{});
    };
    do {
      processes[1]->serve(0, third_time);
    } while (processes[1]->has_open_request(0));
  });
  const auto reply = processes[0]->ask(1, {MemoryNote::kUnmap}, {}, long_deadline());
  other.join();
  ASSERT_TRUE(reply.ok()) << reply.error().text;
  EXPECT_EQ(reply->address, 5u);
  EXPECT_EQ(looks, 3);
}

TEST_F(MemoryExchanges, ALateAnswerIsTakenForNoOther) {
  EXPECT_EQ(ask(1, 0, false).code(), StatusCode::kTimeout);
  answer(1, 77);
  const auto other = ask(2, 5);
  ASSERT_TRUE(other.ok()) << other.error().text;
  EXPECT_EQ(other->address, 5u);
  const auto again = ask(1, 0, false);
  ASSERT_EQ(again.code(), StatusCode::kRemoteError);
  EXPECT_NE(again.error().text.find("rank 1 did not answer"), std::string::npos);
}

}  // namespace
}  // namespace rondo::gpu
