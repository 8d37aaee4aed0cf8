// SPDX-License-Identifier: Apache-2.0
// The acceptor: visitors that hold the secret get in, even if others are silent, slow or wrong.
#include "transport/auth/acceptor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "base/fd.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_call.h"
#include "tests/unit/transport/auth/secret_of.h"
#include "transport/auth/handshake.h"
#include "transport/socket/tcp.h"

namespace rondo::auth {
namespace {

using namespace std::chrono_literals;

struct Host {
  Host() {
    std::vector<net::Socket> listeners;
    listeners.push_back(
        net::listen_tcp(net::resolve({"127.0.0.1", 0}, AF_INET).value()[0]).value());
    address = net::local_address(listeners[0]).value();
    acceptor = Acceptor::open(std::move(listeners), {.endpoint = "host"}).value();
  }
  KnownSecret secret_for(const Tag& tag) {
    if (known && tag == tag_of(secret)) return {&secret, false};
    return {nullptr, may_come};
  }
  void turn(std::chrono::milliseconds at_most = 1ms) {
    pollfd entry{acceptor->poll_fd(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(at_most.count()));
    for (Arrival& arrival : acceptor->serve([&](const Tag& tag) { return secret_for(tag); }))
      arrivals.push_back(std::move(arrival));
    max_seen = std::max(max_seen, acceptor->unproven());
  }
  template <class Ready>
  bool until(Ready&& ready) {
    const auto end = net::Clock::now() + 300s;
    while (!ready()) {
      turn();
      if (net::Clock::now() > end) return false;
    }
    return true;
  }

  net::SocketAddress address;
  std::unique_ptr<Acceptor> acceptor;
  Digest secret = secret_of(1);
  bool known = true;
  bool may_come = false;
  std::vector<Arrival> arrivals;
  std::size_t max_seen = 0;
};

net::Socket visit(const Host& host) {
  return net::connect_tcp({&host.address, 1}, net::Deadline::of(300s)).value();
}

bool closed(const net::Socket& socket) {
  std::byte byte;
  const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

// A visitor that reconnects until it is accepted.
struct Visitor {
  explicit Visitor(const Host& to, int secret = 1) : host(to), number(secret) { start(); }
  void start() {
    socket = visit(host);
    handshake = Handshake::connector(secret_of(number), "host");
  }
  void turn() {
    if (handshake.state() == Handshake::State::kTurn) handshake.answer({});
    if (handshake.talking() && !move(handshake, socket.get()).ok()) start();
  }
  bool in() const { return handshake.state() == Handshake::State::kProven; }

  const Host& host;
  int number;
  net::Socket socket;
  Handshake handshake = Handshake::acceptor("");
};

TEST(Acceptor, LetsInWhoHoldsTheSecretWithItsPayloadAndKey) {
  Host host;
  net::Socket socket;
  Handshake handshake = Handshake::acceptor("");
  std::thread visitor([&] {
    const auto deadline = net::Deadline::of(300s);
    const auto payload = [] { return Bytes(100, std::byte{7}); };
    Status in = fail(StatusCode::kTimeout, "it did not come");
    while (!in.ok() && net::Clock::now() < deadline.at) {  // a slow visitor is dropped
      socket = visit(host);
      handshake = Handshake::connector(host.secret, "host");
      in = complete(handshake, socket.get(), payload, deadline, "testing");
    }
    EXPECT_TRUE(in.ok()) << in.error().text;
  });
  EXPECT_TRUE(host.until([&] { return !host.arrivals.empty(); }));
  visitor.join();
  ASSERT_EQ(host.arrivals.size(), 1u);
  EXPECT_EQ(host.arrivals[0].session_key, handshake.session_key());
  EXPECT_EQ(host.arrivals[0].payload, Bytes(100, std::byte{7}));
  EXPECT_EQ(host.arrivals[0].from.text(), net::local_address(socket).value().text());
  EXPECT_EQ(host.acceptor->unproven(), 0u);
}

TEST(Acceptor, ServesUnixSocketsToo) {
  net::Socket listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof(sa_family_t)), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  socklen_t length = sizeof(at);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  Host host;
  std::vector<net::Socket> listeners;
  listeners.push_back(std::move(listener));
  host.acceptor = Acceptor::open(std::move(listeners), {.endpoint = "host"}).value();
  net::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&at), length), 0);
  Handshake handshake = Handshake::connector(host.secret, "host");
  const auto step = [&] {
    if (handshake.state() == Handshake::State::kTurn) handshake.answer({});
    EXPECT_TRUE(move(handshake, socket.get()).ok());
    return !host.arrivals.empty();
  };
  EXPECT_TRUE(host.until(step));
  EXPECT_FALSE(host.arrivals[0].from.valid());
}

TEST(Acceptor, NothingIsReadFromAVisitorThatIsNotAdmitted) {
  Host host;
  std::vector<net::Socket> listeners;
  listeners.push_back(net::listen_tcp(host.address.with_port(0)).value());
  host.address = net::local_address(listeners[0]).value();
  host.acceptor = Acceptor::open(std::move(listeners),
                                 {.endpoint = "host", .admits = [](int) { return false; }})
                      .value();
  const net::Socket socket = visit(host);
  EXPECT_TRUE(host.until([&] { return closed(socket); }));
  EXPECT_TRUE(host.arrivals.empty());
}

TEST(Acceptor, BoundsItsCrowdOfSilentVisitorsAndStillLetsOthersIn) {
  Host host;
  std::vector<net::Socket> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(visit(host));
  Visitor honest(host);
  const auto step = [&] {
    honest.turn();
    return honest.in() && !host.arrivals.empty();
  };
  EXPECT_TRUE(host.until(step));
  EXPECT_LE(host.max_seen, Acceptor::max_unproven());
  EXPECT_GT(host.max_seen, 0u);
  EXPECT_TRUE(host.until([&] { return std::all_of(crowd.begin(), crowd.end(), closed); }));
  EXPECT_EQ(host.acceptor->unproven(), 0u);
}

// The visitors send the right tag and then stay silent: the worst that an eavesdropper can do.
TEST(Acceptor, VisitorsThatStopHalfWayDoNotHoldTheOthersUp) {
  Host host;
  std::vector<net::Socket> crowd;
  Handshake half_way = Handshake::connector(host.secret, "host");
  for (std::size_t i = 0; i < 3 * Acceptor::max_unproven(); ++i) {
    crowd.push_back(visit(host));
    const std::size_t bytes = i % 3 == 0 ? 1 : half_way.unsent().size();
    ASSERT_GT(::send(crowd.back().get(), half_way.unsent().data(), bytes, MSG_NOSIGNAL), 0);
  }
  std::vector<std::unique_ptr<Visitor>> honest;
  for (int i = 0; i < 100; ++i) honest.push_back(std::make_unique<Visitor>(host));
  const auto step = [&] {
    for (const auto& one : honest) one->turn();
    return host.arrivals.size() == honest.size();
  };
  EXPECT_TRUE(host.until(step)) << host.arrivals.size();
  EXPECT_LE(host.max_seen, Acceptor::max_unproven());
}

// A visitor has one second to prove itself. After a grace of at most 250 ms it can be dropped
// earlier, for a visitor that waits. The test looks between these times: the visitor that is
// furthest in the handshake must stay, and another one must be dropped. It repeats if the machine
// was too busy.
TEST(Acceptor, WhereSomebodyHasToGoTheVisitorThatGotFurthestStays) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Host host;
    const auto began = net::Clock::now();
    const net::Socket furthest = visit(host);
    Handshake honest = Handshake::connector(host.secret, "host");
    const auto turn = [&] {
      host.turn();
      return honest.talking() && move(honest, furthest.get()).ok();
    };
    while (honest.state() != Handshake::State::kTurn && turn()) continue;  // it is challenged
    std::vector<net::Socket> crowd;
    while (crowd.size() + 1 < Acceptor::max_unproven()) crowd.push_back(visit(host));
    const auto is_late = [&] { return net::Clock::now() > began + 900ms; };
    host.until([&] { return host.acceptor->unproven() > crowd.size() || is_late(); });
    // Each of them has had its grace: 250 ms, or 10 ms if it is silent.
    std::this_thread::sleep_until(std::max(began + 400ms, net::Clock::now() + 20ms));
    crowd.push_back(visit(host));
    const auto one_went = [&] { return std::any_of(crowd.begin(), crowd.end(), closed); };
    host.until([&] { return one_went() || closed(furthest); });
    const bool stays = !closed(furthest);
    if (is_late()) continue;
    EXPECT_TRUE(stays);
    EXPECT_LE(host.max_seen, Acceptor::max_unproven());
    return;
  }
  GTEST_SKIP() << "the machine is too busy";
}

TEST(Acceptor, VisitorsWithAWrongSecretAreRefused) {
  Host host;
  host.may_come = false;
  net::Socket stranger = visit(host);
  Handshake wrong = Handshake::connector(secret_of(2), "host");
  (void)move(wrong, stranger.get());
  EXPECT_TRUE(host.until([&] { return closed(stranger); }));
  // The stranger overheard the tag but does not have the secret.
  stranger = visit(host);
  Handshake right = Handshake::connector(host.secret, "host");
  Bytes sent(right.unsent().begin(), right.unsent().end());
  sent.resize(sent.size() + 7 + 32);
  std::copy_n(sent.begin(), 4, sent.end() - 39);
  sent[sent.size() - 35] = std::byte{3};
  sent[sent.size() - 34] = std::byte{32};
  ASSERT_GT(::send(stranger.get(), sent.data(), sent.size(), MSG_NOSIGNAL), 0);
  std::size_t half_way = 0;
  std::byte buffer[256];
  const auto has_closed = [&] {
    const ssize_t got = ::recv(stranger.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got > 0) half_way += static_cast<std::size_t>(got);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  };
  EXPECT_TRUE(host.until(has_closed));
  EXPECT_GT(half_way, 0u);  // it was challenged
  EXPECT_TRUE(host.arrivals.empty());
}

TEST(Acceptor, AVisitorWaitsForASecretThatMayComeOrComesAgain) {
  Host host;
  host.known = false;
  host.may_come = true;
  Visitor early(host);
  for (int i = 0; i < 5; ++i) {
    early.turn();
    host.turn();
  }
  EXPECT_TRUE(host.arrivals.empty());
  host.known = true;
  const auto step = [&] {
    early.turn();
    return early.in() && !host.arrivals.empty();
  };
  EXPECT_TRUE(host.until(step));
}

// Runs in a child: with almost no descriptors left, the acceptor can accept no connection for a
// while.
TEST(Acceptor, OutOfDescriptorsItPausesAndLetsInLater) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    Host host;
    Visitor honest(host);
    std::vector<Fd> filled;
    rlimit limit{40, 40};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int fd; (fd = ::dup(2)) >= 0;) filled.emplace_back(fd);
    for (int i = 0; i < 20; ++i) {
      honest.turn();
      host.turn();
    }
    if (!host.arrivals.empty()) _exit(2);
    filled.resize(filled.size() - 2);
    const bool in = host.until([&] {
      honest.turn();
      return !host.arrivals.empty();
    });
    _exit(in ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Nobody can be dropped, and descriptors stay away: after a second the owner learns why.
TEST(Acceptor, ReportsThatDescriptorsHaveRunOutUntilThereAreSome) {
  const std::string outcome = test::in_child([]() -> std::string {
    Host host;
    Visitor honest(host);
    std::vector<Fd> filled;
    rlimit limit{40, 40};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int fd; (fd = ::dup(2)) >= 0;) filled.emplace_back(fd);
    if (!host.acceptor->standing().ok()) return "an error before anybody came";
    if (!host.until([&] { return !host.acceptor->standing().ok(); })) return "no error";
    const std::string why = host.acceptor->standing().error().text;
    if (host.acceptor->standing().code() != StatusCode::kSystemError ||
        why.find("ulimit -n") == std::string::npos)
      return why;
    filled.resize(filled.size() - 2);
    const auto step = [&] {
      honest.turn();
      return !host.arrivals.empty();
    };
    if (!host.until(step)) return "it accepts nobody any more";
    return host.acceptor->standing().ok() ? "" : "still an error";
  });
  EXPECT_EQ(outcome, "");
}

TEST(Acceptor, ReportsAtOnceThatTheSystemRefusesToAccept) {
  const std::string outcome = test::in_child([]() -> std::string {
    Host host;
    if (!test::refuse_calls({SYS_accept4})) return test::kNoFilters;
    const net::Socket visitor = visit(host);
    if (!host.until([&] { return !host.acceptor->standing().ok(); })) return "no error";
    const std::string why = host.acceptor->standing().error().text;
    return why.find("accept4") != std::string::npos &&
                   why.find("Operation not permitted") != std::string::npos
               ? ""
               : why;
  });
  if (outcome == test::kNoFilters) GTEST_SKIP() << outcome;
  EXPECT_EQ(outcome, "");
}

}  // namespace
}  // namespace rondo::auth
