// SPDX-License-Identifier: Apache-2.0
// Listeners for child communicators, and NCCL_COMM_ID.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tests/support/ports.h"
#include "tests/unit/transport/bootstrap/ranks.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/tcp.h"

namespace rondo::bootstrap {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::span<const std::byte> bytes_of(const UniqueId& id) {
  return std::as_bytes(std::span(id.bytes));
}

Result<std::unique_ptr<Session>> join(const UniqueId& id, int rank, int size) {
  return Session::join({.rank = rank, .size = size, .id = id, .timeout = 100s});
}

Status gather_ranks(Session& session) {
  const std::vector<std::byte> mine(1, static_cast<std::byte>(session.rank()));
  RONDO_TRY(const auto table, session.all_gather(mine));
  for (int rank = 0; rank < session.size(); ++rank)
    if (table[static_cast<std::size_t>(rank)] != std::vector{static_cast<std::byte>(rank)})
      return fail(StatusCode::kInternalError, "wrong byte of rank {}", rank);
  return ok_status();
}

// A parent of `size` ranks whose members then split by parity, several times.
Status parent_and_children(const UniqueId& id, int rank, int size) {
  RONDO_TRY(const auto parent, join(id, rank, size));
  RONDO_TRY(const auto listener, Listener::open());
  RONDO_TRY(const auto addresses, parent->all_gather(bytes_of(listener->address())));
  for (int child = 0; child < 3; ++child) {
    const int color = rank % 2;
    UniqueId leader;
    const auto& given = addresses[static_cast<std::size_t>(color)];
    std::memcpy(leader.bytes, given.data(), sizeof(leader.bytes));
    const std::string context = fmt::format("child {} color {}", child, color);
    JoinRequest request{.rank = rank / 2, .size = (size + 1 - color) / 2, .timeout = 100s};
    RONDO_TRY(request.id, child_id(leader, parent->secret().derive("child", bytes_of(context))));
    // The leader is sometimes last.
    if (request.rank == 0 && child == 1) std::this_thread::sleep_for(20ms);
    auto session =
        request.rank == 0 ? Session::serve_and_join(*listener, request) : Session::join(request);
    if (!session.ok()) return session.error();
    RONDO_CHECK_OK(gather_ranks(**session));
  }
  return ok_status();
}

TEST(BootstrapChildren, AreLaunchedByOneOfTheirRanksAmongThreads) {
  const auto id = make_unique_id().value();
  expect_all_ok(as_threads(7, [&](int rank) { return parent_and_children(id, rank, 7); }));
}

TEST(BootstrapChildren, AreLaunchedByOneOfTheirRanksAmongProcesses) {
  const auto id = make_unique_id().value();
  expect_all_ok(as_processes(6, [&](int rank) { return parent_and_children(id, rank, 6); }));
}

TEST(BootstrapChildren, HaveSecretsThatDependOnTheParentsAndOnEverythingElse) {
  const Secret parent = Secret::random();
  const std::string a = "a", b = "b";
  const Digest child = parent.derive("split", bytes_of(a)).bytes();
  EXPECT_EQ(child, parent.derive("split", bytes_of(a)).bytes());
  EXPECT_NE(child, parent.derive("split", bytes_of(b)).bytes());
  EXPECT_NE(child, parent.derive("splita").bytes());
  EXPECT_NE(child, parent.derive("shrink", bytes_of(a)).bytes());
  EXPECT_NE(child, Secret::random().derive("split", bytes_of(a)).bytes());
}

TEST(BootstrapChildren, CannotBeJoinedByTheirAddress) {
  const auto listener = Listener::open().value();
  EXPECT_EQ(decode_id(listener->address()).value().secret, Digest{});
  const auto id = make_unique_id().value();
  const auto address = address_of(id).value();
  EXPECT_EQ(decode_id(address).value().addresses, decode_id(id).value().addresses);
  EXPECT_EQ(Session::join({.rank = 1, .size = 2, .id = address}).code(),
            StatusCode::kInvalidArgument);
  forget_unique_id(id);
}

TEST(BootstrapChildren, ASecondServerOfAnIdIsRefusedInAnotherProcess) {
  const auto listener = Listener::open().value();
  const auto id = child_id(listener->address(), Secret::random()).value();
  const auto results = as_processes(1, [&](int) -> Status {
    const auto session = Session::serve_and_join(*listener, {.rank = 0, .size = 2, .id = id});
    return session.ok() ? ok_status() : Status(session.error());
  });
  EXPECT_EQ(results[0].code(), StatusCode::kInvalidArgument);
}

class SetVariable {
 public:
  SetVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~SetVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

Status join_fixed(int rank, int size) {
  RONDO_TRY(const UniqueId id, make_unique_id());
  RONDO_TRY(const auto session, join(id, rank, size));
  return gather_ranks(*session);
}

TEST(NcclCommId, LetsRanksMeetWithoutPassingAnIdAgainAndAgain) {
  // Processes run first. A process forked while a thread closes a rendezvous would keep its port
  // open. Under TSan, a child of a process with several threads can start none.
  for (const bool processes : {true, false})
    for (const char* host : {"127.0.0.1", "localhost", "[::1]"}) {
      if (host[0] == '[' && !net::listen_tcp(net::SocketAddress::any(AF_INET6, 0)).ok()) continue;
      SetVariable variable("NCCL_COMM_ID", fmt::format("{}:{}", host, test::reserved_port()));
      for (int turn = 0; turn < 3; ++turn)
        expect_all_ok(processes ? as_processes(4, [&](int rank) { return join_fixed(rank, 4); })
                                : as_threads(3, [&](int rank) { return join_fixed(rank, 3); }));
    }
}

TEST(NcclCommId, WaitsForRankZero) {
  SetVariable variable("NCCL_COMM_ID", fmt::format("127.0.0.1:{}", test::reserved_port()));
  expect_all_ok(as_threads(2, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(100ms);
    return join_fixed(rank, 2);
  }));
}

TEST(NcclCommId, OfAnAddressThatIsNotOursIsAClearError) {
  SetVariable variable("NCCL_COMM_ID", "192.0.2.1:4321");
  const auto result = join_fixed(0, 2);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().text.find("NCCL_COMM_ID"), std::string::npos) << result.error().text;
}

TEST(NcclCommId, ThatIsNoAddressIsRefused) {
  SetVariable variable("NCCL_COMM_ID", "here");
  EXPECT_EQ(make_unique_id().code(), StatusCode::kInvalidArgument);
}

TEST(SocketFamily, Ipv6AloneCarriesASession) {
  SetVariable family("NCCL_SOCKET_FAMILY", "AF_INET6");
  SetVariable name("NCCL_SOCKET_IFNAME", "=lo");
  const auto id = make_unique_id();
  if (!id.ok()) GTEST_SKIP() << id.error().text;
  ASSERT_EQ(decode_id(id.value()).value().addresses.at(0).family(), AF_INET6);
  expect_all_ok(as_threads(4, [&](int rank) -> Status {
    RONDO_TRY(const auto session, join(id.value(), rank, 4));
    return gather_ranks(*session);
  }));
}

// Every address 127.x.y.z belongs to the loopback device, but the rendezvous listens only at the
// chosen one.
TEST(SocketInterface, ThatWasNotChosenIsNotListenedAt) {
  SetVariable family("NCCL_SOCKET_FAMILY", "AF_INET");
  SetVariable name("NCCL_SOCKET_IFNAME", "=lo");
  const auto answers = [](const char* host, std::uint16_t port, auto time) {
    const auto at = net::resolve({host, port}, AF_INET).value();
    return net::connect_tcp(at, net::Deadline::of(time)).ok();
  };
  const auto expect_only_chosen = [&](std::uint16_t port) {
    EXPECT_TRUE(answers("127.0.0.1", port, 100s));
    EXPECT_FALSE(answers("127.0.0.2", port, 200ms));
  };
  const auto id = make_unique_id();
  ASSERT_TRUE(id.ok()) << id.error().text;
  expect_only_chosen(decode_id(*id).value().port);
  const auto listener = Listener::open();
  ASSERT_TRUE(listener.ok());
  expect_only_chosen(decode_id((*listener)->address()).value().port);
  forget_unique_id(*id);
}

TEST(SocketInterface, ThatDoesNotExistIsAClearError) {
  SetVariable name("NCCL_SOCKET_IFNAME", "=nosuch0");
  const auto id = make_unique_id();
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.error().text.find("nosuch0"), std::string::npos);
}

}  // namespace
}  // namespace rondo::bootstrap
