// SPDX-License-Identifier: Apache-2.0
// Who gets answers at a status socket and who may change the job, by whatever address it comes; and
// that visitors take neither each other's places nor the server's time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "base/fd.h"
#include "base/poll_until.h"
#include "tests/support/in_child.h"
#include "tests/support/joined_namespaces.h"
#include "transport/socket/tcp.h"
#include "transport/status/line_server.h"

namespace rondo::status {
namespace {

constexpr uid_t kStranger = 12345;
constexpr unsigned char kLoopback[] = {127, 0, 0, 1}, kNear[] = {10, 7, 0, 1};

// False after five minutes.
bool eventually(const std::function<bool()>& holds) {
  return poll_until(holds, seconds_from_now(300), std::chrono::milliseconds(5));
}

net::SocketAddress at(const unsigned char (&ip)[4], std::uint16_t port = 0) {
  return net::SocketAddress::v4(ip, port);
}

// A connection whose client is a socket of user `uid` at the address `from`.
struct Pair {
  net::Socket client, served;

  Pair(uid_t uid, const net::SocketAddress& from, const net::SocketAddress& to) {
    const net::Socket listener = net::listen_tcp(to).value();
    EXPECT_EQ(seteuid(uid), 0);
    client = net::Socket(::socket(from.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(seteuid(0), 0);
    const net::SocketAddress peer = net::local_address(listener).value();
    EXPECT_EQ(bind(client.get(), from.raw(), from.length()), 0);
    EXPECT_EQ(connect(client.get(), peer.raw(), peer.length()), 0) << strerror(errno);
    served = std::move(net::accept_tcp(listener).value()->socket);
  }
};

// "" if it gets answers and may control the job, else why not.
std::string refusal(const Pair& pair) {
  const auto rights = rights_of(pair.served.get());
  return rights.ok() ? rights->may_not_control : "no answer: " + rights.error().text;
}

struct StatusRights : testing::Test {
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
  // In a namespace in which this host is 10.7.0.1, and another one is not.
  static std::string on_a_host(const std::function<std::string()>& body) {
    return test::in_child([&]() -> std::string {
      const test::JoinedNamespaces hosts;
      return hosts ? body() : "no namespaces";
    });
  }
};

TEST_F(StatusRights, AreOfTheUserOfASocketOfThisHostByWhateverAddress) {
  const std::string found = on_a_host([]() -> std::string {
    std::string wrong;
    for (const auto& [from, to] :
         {std::pair(at(kLoopback), at(kLoopback)), std::pair(at(kNear), at(kLoopback)),
          std::pair(at(kLoopback), at(kNear)), std::pair(at(kNear), at(kNear))}) {
      const std::string own = refusal(Pair(0, from, to));
      const std::string other = refusal(Pair(kStranger, from, to));
      if (own != "") wrong += fmt::format("root from {} to {}: {}\n", from.text(), to.text(), own);
      if (other.find("it belongs to user 12345 and this process to user 0") == std::string::npos)
        wrong += fmt::format("a stranger from {} to {}: {}\n", from.text(), to.text(), other);
    }
    return wrong;
  });
  if (found == "no namespaces") GTEST_SKIP() << found;
  EXPECT_EQ(found, "");
}

// Nobody owns a socket that was closed with data under way; the kernel's tables show root there.
TEST_F(StatusRights, AreNotThoseOfRootForASocketThatWasClosed) {
  Pair pair(kStranger, at(kLoopback), at(kLoopback));
  ASSERT_EQ(send(pair.client.get(), "STATUS\n", 7, MSG_NOSIGNAL), 7);
  pair.client.reset();
  std::string why;
  EXPECT_TRUE(eventually([&] {  // some kernels show its user until the end is acknowledged
    why = refusal(pair);
    return why.find("it belongs to user 12345") == std::string::npos;
  }));
  EXPECT_NE(why.find("no answer: "), std::string::npos) << why;
  EXPECT_NE(why.find("has been closed"), std::string::npos) << why;
}

TEST_F(StatusRights, AreKeptByAClientThatHasSentAll) {
  const Pair pair(0, at(kLoopback), at(kLoopback));
  ASSERT_EQ(shutdown(pair.client.get(), SHUT_WR), 0);
  EXPECT_EQ(refusal(pair), "");
}

TEST_F(StatusRights, OfAUserWhomAVariableNamesEndAtReading) {
  const std::string found = test::in_child([]() -> std::string {
    setenv("RONDO_UNIX_UIDS", "12345", 1);
    return refusal(Pair(kStranger, at(kLoopback), at(kLoopback)));
  });
  EXPECT_EQ(found, "user 12345 may read the status; user 0 and root control the job");
}

TEST_F(StatusRights, OfAnotherHostEndAtReadingAndNameIt) {
  const std::string found = test::in_child([]() -> std::string {
    const test::JoinedNamespaces hosts;
    if (!hosts) return "no namespaces";
    const net::Socket listener = net::listen_tcp(at(kNear)).value();
    const net::SocketAddress to = net::local_address(listener).value();
    const Fd here(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!hosts.go_there()) return "no other host";
    const net::Socket client = net::start_connect(to).value();
    if (setns(here.get(), CLONE_NEWNET) != 0) return "no way back";
    for (;;) {
      auto accepted = net::accept_tcp(listener).value();
      if (!accepted) continue;
      const auto rights = rights_of(accepted->socket.get());
      return rights.ok() ? rights->may_not_control : rights.error().text;
    }
  });
  if (found == "no namespaces") GTEST_SKIP() << found;
  EXPECT_TRUE(found.starts_with("10.7.0.2:") && found.find(" is not of this host; the job is "
                                                           "controlled by its user and by root on "
                                                           "its hosts") != std::string::npos)
      << found;
}

// However many come and are refused, a turn of the server ends.
TEST_F(StatusRights, AreLookedUpForFewVisitorsATurn) {
  const net::Socket listener = net::listen_tcp(at(kLoopback)).value();
  const net::SocketAddress to = net::local_address(listener).value();
  ASSERT_EQ(seteuid(kStranger), 0);
  std::vector<net::Socket> strangers;
  for (std::size_t i = 0; i < 3 * LineServer::kMaxAccepted; ++i) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(strangers.back().get(), to.raw(), to.length()), 0) << strerror(errno);
  }
  ASSERT_EQ(seteuid(0), 0);
  LineServer server({});
  server.listen_at(listener);
  server.step();
  std::size_t refused = 0;
  for (const net::Socket& one : strangers) {
    char byte = 0;
    refused += recv(one.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  EXPECT_EQ(refused, LineServer::kMaxAccepted);
}

// ---- clients of the metrics ----

struct MetricsClients : testing::Test {
  const net::Socket lines = net::listen_tcp(at(kLoopback)).value();
  const net::Socket http = net::listen_tcp(at(kLoopback)).value();
  LineServer server{{{"STATUS", [](Conversation&, std::string_view) {
                        return Reply{"status\n", true};
                      }}}};
  MetricsClients() {
    server.listen_at(lines);
    server.serve_http_at(http, [](std::string_view) { return std::string("metrics"); });
  }
  static net::Socket connect_to(const net::Socket& listener) {
    net::Socket client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const net::SocketAddress to = net::local_address(listener).value();
    EXPECT_EQ(connect(client.get(), to.raw(), to.length()), 0) << strerror(errno);
    return client;
  }
  // Sends the text, and drives the server until it has closed the connection.
  std::string answer_to(const net::Socket& client, std::string_view text) {
    EXPECT_EQ(send(client.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    std::string answer;
    EXPECT_TRUE(eventually([&] {
      server.step();
      char buffer[100];
      const ssize_t count = recv(client.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (count > 0) answer.append(buffer, static_cast<std::size_t>(count));
      return count == 0;
    }));
    return answer;
  }
};

TEST_F(MetricsClients, WhoAreSlowTakeNoPlaceOfTheStatus) {
  std::vector<net::Socket> slow;
  for (std::size_t i = 0; i < LineServer::kMaxVisitors + LineServer::kMaxRequests; ++i)
    slow.push_back(connect_to(http));
  for (int turn = 0; turn < 10; ++turn) server.step();
  EXPECT_EQ(answer_to(connect_to(lines), "STATUS\n"), "status\n");
  // And they leave room for others in the end.
  EXPECT_EQ(answer_to(connect_to(http), "GET /metrics HTTP/1.1\r\n\r\n"), "metrics");
}

TEST_F(MetricsClients, WhoDribbleARequestAreSentAway) {
  const net::Socket client = connect_to(http);
  std::size_t sent = 0;
  EXPECT_TRUE(eventually([&] {
    server.step();
    char byte = 0;
    if (recv(client.get(), &byte, 1, MSG_DONTWAIT) == 0) return true;
    return send(client.get(), "G", 1, MSG_NOSIGNAL) < 0 || ++sent > 2 * Visitor::kMaxRequest;
  }));
  EXPECT_LT(sent, Visitor::kMaxRequest);
}

}  // namespace
}  // namespace rondo::status
