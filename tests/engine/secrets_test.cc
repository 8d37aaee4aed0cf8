// SPDX-License-Identifier: Apache-2.0
// A listener on the network learns no secret of a communicator, its children, its links or its
// growth, and cannot take a rank's seat.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "base/bytes.h"
#include "collectives/communicator/communicator_state.h"
#include "tests/support/engine_rank.h"
#include "tests/support/ports.h"
#include "tests/support/processes.h"
#include "tests/support/sniffer.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::test {
namespace {

using bootstrap::Digest;
using bootstrap::Secret;
using Bytes = std::vector<std::byte>;

constexpr double kLong = kLongestWait / 2;

std::string text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Two ranks on two hosts, so that calls and the records of children also use TCP.
Job two_hosts() {
  Job options;
  options.comm.timeout_seconds = options.comm.init_timeout_seconds = kLong;
  options.hosts = {"one", "two"};
  return options;
}

Status sum_of(Communicator& comm, int expected) {
  int mine = 1, sum = 0;
  Call call;
  call.record = {1, Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1};
  call.send = &mine;
  call.receive = &sum;
  RONDO_CHECK_OK(comm.run({&call, 1}));
  return sum == expected ? ok_status() : fail(StatusCode::kInternalError, "the sum is {}", sum);
}

Secret split_secret(const Secret& parent) {
  ByteWriter context;
  context.put(std::uint64_t{1});
  for (const int member : {0, 1}) context.put(member);
  return parent.derive("split", context.take());
}

// Runs in a separate process. Exit status 0, or 2 if namespaces are unavailable.
int in_namespace(const std::function<void(Sniffer&)>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    auto sniffer = Sniffer::enter();
    if (!sniffer) _exit(2);
    body(*sniffer);
    fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// The secrets of a communicator, written to the test by rank 0: its own, and the id's.
struct Known {
  Digest communicator, id;
};

TEST(Secrets, NeverTravel) {
  const int status = in_namespace([](Sniffer& sniffer) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    RankProcesses ranks(2, two_hosts(), [&](EngineRank& seat) {
      if (seat.rank == 0) {
        Known known{seat.comm->secret().bytes(), {}};
        std::memcpy(known.id.data(), seat.board.id.bytes + 12, known.id.size());
        seat.expect(write(pipe_ends[1], &known, sizeof(known)) == sizeof(known), "pipe");
      }
      auto result = sum_of(*seat.comm, 2);
      if (result.ok()) {
        const auto child = seat.comm->split(0, 0, seat.comm->options(), {});
        result = child.ok() ? sum_of(**child, 2) : Status(child.error());
      }
      seat.report(result);
    });
    ASSERT_TRUE(ranks.wait_reports());
    ranks.check_expectations();
    for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(ranks.status(rank), StatusCode::kSuccess);
    Known known;
    ASSERT_EQ(read(pipe_ends[0], &known, sizeof(known)), static_cast<ssize_t>(sizeof(known)));
    const Bytes recorded = sniffer.bytes();
    const Secret own(known.communicator);
    const Secret child = split_secret(own);
    const std::set<std::string> secrets = {text_of(known.communicator), text_of(known.id),
                                           text_of(child.bytes()),
                                           text_of(own.derive("links").bytes())};
    ASSERT_GT(recorded.size(), 2000U);
    for (std::size_t at = 0; at + 32 <= recorded.size(); ++at) {
      Digest candidate;
      std::memcpy(candidate.data(), recorded.data() + at, candidate.size());
      ASSERT_EQ(secrets.count(text_of(candidate)), 0U) << "a secret travelled, byte " << at;
      ASSERT_NE(split_secret(Secret(candidate)).bytes(), child.bytes())
          << "what a child's secret derives from travelled, byte " << at;
    }
  });
  if (status == 2) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(status, 0);
}

// TCP ports of this network namespace that accept IPv4 connections.
std::set<std::uint16_t> listening_ports() {
  std::set<std::uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    unsigned port = 0, state = 0;
    if (std::sscanf(line.c_str(), " %*d: %*8x:%4x %*8x:%*4x %2x", &port, &state) == 2 &&
        state == 0x0a)
      ports.insert(static_cast<std::uint16_t>(port));
  }
  return ports;
}

// The attacker knows every port and has recorded all traffic. The ranks' addresses and secrets are
// encrypted on the wire.
TEST(Secrets, AListenerTakesNobodysSeatInAChild) {
  const int status = in_namespace([](Sniffer& sniffer) {
    RankProcesses ranks(2, two_hosts(), [](EngineRank& seat) {
      seat.mark(1);
      if (!seat.wait_flag(1)) return seat.report(fail(StatusCode::kTimeout, "no flag"));
      const auto child = seat.comm->split(0, 0, seat.comm->options(), {});
      seat.report(child.ok() ? sum_of(**child, 2) : Status(child.error()));
    });
    ASSERT_TRUE(ranks.wait_stage(1));
    const Bytes recorded = sniffer.bytes();
    ASSERT_GT(recorded.size(), 2000U);
    constexpr char kMagic[] = "RondoID";
    for (std::size_t at = 0; at + 7 <= recorded.size(); ++at)
      ASSERT_NE(std::memcmp(recorded.data() + at, kMagic, 7), 0) << "a rank's id travels readably";
    std::set<std::string> addresses;
    for (const std::uint16_t port : listening_ports()) {
      bootstrap::IdContents contents;
      contents.port = port;
      constexpr unsigned char kLoopback[4] = {127, 0, 0, 1};
      contents.addresses = {net::SocketAddress::v4(kLoopback, port)};
      addresses.emplace(bootstrap::encode_id(contents).bytes, sizeof(bootstrap::UniqueId));
    }
    ASSERT_FALSE(addresses.empty()) << "nobody listens in the namespace";
    // The attackers connect before the child's ranks do.
    std::atomic<int> seats{0};
    std::vector<std::thread> thieves;
    for (const auto& address : addresses) {
      Digest id_digest;
      std::memcpy(id_digest.data(), address.data() + 12, id_digest.size());
      for (const Secret& guess : {Secret(id_digest), split_secret(Secret(id_digest)), Secret()})
        thieves.emplace_back([&seats, &address, guess] {
          bootstrap::UniqueId recorded;
          std::memcpy(recorded.bytes, address.data(), sizeof(recorded.bytes));
          const auto id = bootstrap::child_id(recorded, guess);
          if (!id.ok()) return;
          const auto seat = bootstrap::Session::join(
              {.rank = 1, .size = 2, .id = *id, .timeout = std::chrono::seconds(3)});
          if (seat.ok()) ++seats;
        });
    }
    nap(0.5);
    ranks.board().flag.store(1);
    ASSERT_TRUE(ranks.wait_reports());
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(ranks.status(rank), StatusCode::kSuccess) << ranks.text(rank);
    for (std::thread& thief : thieves) thief.join();
    EXPECT_EQ(seats.load(), 0) << "a thief took rank 1's seat";
  });
  if (status == 2) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(status, 0);
}

// Each host resolves the name differently: rank 0 listens on all addresses, rank 1 knows one.
TEST(Secrets, OfLinksDoNotDependOnHowNcclCommIdResolves) {
  Job options = two_hosts();
  options.create = false;
  const int port = reserved_port();
  RankProcesses ranks(2, options, [&](EngineRank& seat) {
    setenv("NCCL_COMM_ID",
           fmt::format("{}:{}", seat.rank == 0 ? "0.0.0.0" : "127.0.0.1", port).c_str(), 1);
    const auto id = bootstrap::make_unique_id();
    if (!id.ok()) return seat.report(id.error());
    CreateRequest request;
    request.rank = seat.rank;
    request.size = seat.size;
    request.id = *id;
    request.options = short_timeouts();
    const auto comm = Communicator::create(request);
    seat.report(comm.ok() ? sum_of(**comm, 2) : Status(comm.error()));
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(ranks.status(rank), StatusCode::kSuccess) << ranks.text(rank);
}

}  // namespace
}  // namespace rondo::test
