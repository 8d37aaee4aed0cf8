// SPDX-License-Identifier: Apache-2.0
// Addresses, interface choice, frames, links and deadlines.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/support/environment.h"
#include "tests/support/ports.h"
#include "tests/support/stepped_clock.h"
#include "transport/auth/hmac.h"
#include "transport/bootstrap/framed_link.h"
#include "transport/bootstrap/messages.h"
#include "transport/bootstrap/session_state.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/tcp.h"

namespace rondo::net {
namespace {

using namespace std::chrono_literals;

TEST(HostPort, AcceptsNamesAddressesAndBrackets) {
  struct {
    const char* text;
    const char* host;
    int port;
  } const cases[] = {{"node7:4000", "node7", 4000},
                     {"10.0.0.1:1", "10.0.0.1", 1},
                     {"[fe80::1%eth0]:65535", "fe80::1%eth0", 65535},
                     {"[::]:80", "::", 80}};
  for (const auto& one : cases) {
    const auto place = parse_host_port(one.text);
    ASSERT_TRUE(place.ok()) << one.text;
    EXPECT_EQ(place.value().host, one.host);
    EXPECT_EQ(place.value().port, one.port);
  }
}

TEST(HostPort, RefusesEverythingElseAndNamesIt) {
  for (const char* text : {"", "host", "host:", ":80", "host:0", "host:65536", "host:8x", "::1:80",
                           "[::1]", "[::1]80", "[::1:80", "[]:80", "host:-1"}) {
    const auto place = parse_host_port(text);
    ASSERT_FALSE(place.ok()) << text;
    EXPECT_NE(place.error().text.find(text), std::string::npos);
  }
}

TEST(SocketAddress, PrintsWhatResolveReads) {
  for (const char* text : {"127.0.0.1:80", "[::1]:4000", "[2001:db8::7]:9"}) {
    const auto addresses = resolve(parse_host_port(text).value(), AF_UNSPEC);
    ASSERT_TRUE(addresses.ok()) << addresses.error().text;
    ASSERT_EQ(addresses.value().size(), 1u);
    EXPECT_EQ(addresses.value()[0].text(), text);
  }
}

TEST(InterfaceFilter, HasNcclsGrammar) {
  struct {
    const char* filter;
    const char* name;
    bool admitted;
  } const cases[] = {{"eth", "eth0", true},       {"eth", "veth0", false},
                     {"eth0,ib", "ib1", true},    {"=eth0", "eth0", true},
                     {"=eth", "eth0", false},     {"^docker,lo", "eth0", true},
                     {"^docker,lo", "lo", false}, {"^docker,lo", "docker0", false},
                     {"^=eth0", "eth01", true},   {"^=eth0", "eth0", false}};
  for (const auto& one : cases)
    EXPECT_EQ(InterfaceFilter::parse(one.filter).admits(one.name), one.admitted)
        << one.filter << " " << one.name;
}

TEST(Interfaces, AreChosenByTiersUnlessNamed) {
  const auto v4 = SocketAddress::any(AF_INET, 0);
  const auto v6 = SocketAddress::any(AF_INET6, 0);
  const std::vector<Interface> all = {{"lo", v4},   {"lo", v6},   {"docker0", v4},
                                      {"eth0", v4}, {"eth0", v6}, {"eth1", v4}};
  const auto names = [&](std::string_view filter, int family, std::size_t count) {
    std::string text;
    const auto of = std::span(all).first(count);
    for (const Interface& one : choose_interfaces(of, filter, family)) text += one.name + " ";
    return text;
  };
  EXPECT_EQ(names("", AF_UNSPEC, 6), "eth0 eth0 eth1 ");
  EXPECT_EQ(names("", AF_INET6, 6), "eth0 ");
  EXPECT_EQ(names("", AF_UNSPEC, 3), "docker0 ");
  EXPECT_EQ(names("", AF_UNSPEC, 2), "lo lo ");
  EXPECT_EQ(names("lo", AF_INET, 6), "lo ");
  EXPECT_EQ(names("=eth", AF_INET, 6), "");
}

TEST(Interfaces, ThatAreNotRunningComeBeforeLoBehindAllOthers) {
  const auto v4 = SocketAddress::any(AF_INET, 0);
  const std::vector<Interface> all = {
      {"lo", v4}, {"young0", v4, false}, {"docker0", v4, false}, {"eth0", v4}};
  const auto names = [&](std::string_view filter, std::size_t count) {
    std::string text;
    const auto of = std::span(all).first(count);
    for (const Interface& one : choose_interfaces(of, filter, AF_UNSPEC)) text += one.name + " ";
    return text;
  };
  EXPECT_EQ(names("", 4), "eth0 ");
  EXPECT_EQ(names("", 3), "young0 lo ");
  EXPECT_EQ(names("young,eth", 4), "eth0 ");
  EXPECT_EQ(names("young,eth", 3), "young0 ");
}

TEST(Interfaces, LoopbackAloneIsRefusedUnlessAllRanksAreOnOneMachine) {
  const auto at = [](const char* text) {
    return resolve(parse_host_port(text).value(), AF_UNSPEC).value();
  };
  const auto lo = at("127.0.0.1:1"), elsewhere = at("192.0.2.9:1");
  EXPECT_EQ(check_reach(lo, elsewhere).code(), StatusCode::kInvalidUsage);
  EXPECT_TRUE(check_reach(elsewhere, elsewhere).ok());
  EXPECT_TRUE(check_reach(lo, lo).ok());
  for (const char* filter : {"lo", "=lo", "eth,lo"}) {
    const test::WithEnvironment named("NCCL_SOCKET_IFNAME", filter);
    EXPECT_TRUE(check_reach(lo, elsewhere).ok()) << filter;
  }
  const test::WithEnvironment left_over("NCCL_SOCKET_IFNAME", "^eth");
  EXPECT_FALSE(check_reach(lo, elsewhere).ok());
}

TEST(FrameParser, FindsFramesHoweverTheBytesAreCut) {
  Bytes stream;
  for (int i = 0; i < 20; ++i) {
    const Bytes payload(static_cast<std::size_t>(i * 13), static_cast<std::byte>(i));
    const auto header = frame_header(static_cast<std::uint16_t>(i), 100u + i, payload.size());
    stream.insert(stream.end(), header.begin(), header.end());
    stream.insert(stream.end(), payload.begin(), payload.end());
  }
  for (std::size_t piece : {1u, 2u, 7u, 16u, 100u, 100000u}) {
    FrameParser parser(1000);
    int found = 0;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      parser.feed(ByteSpan(stream).subspan(at, std::min(piece, stream.size() - at)));
      for (;;) {
        const auto frame = parser.next();
        ASSERT_TRUE(frame.ok());
        if (!frame.value()) break;
        EXPECT_EQ(frame.value()->type, found);
        EXPECT_EQ(frame.value()->round, 100u + static_cast<unsigned>(found));
        EXPECT_EQ(frame.value()->payload.size(), static_cast<std::size_t>(found * 13));
        ++found;
      }
    }
    EXPECT_EQ(found, 20);
    EXPECT_TRUE(parser.empty());
  }
}

TEST(FrameParser, RefusesForeignBytesAndLongFramesBeforeTheirPayload) {
  FrameParser http(1000);
  http.feed(std::as_bytes(std::span("GET / HTTP/1.1")));
  EXPECT_EQ(http.next().code(), StatusCode::kRemoteError);
  FrameParser parser(1000);
  parser.feed(frame_header(1, 0, 1001));
  EXPECT_EQ(parser.next().code(), StatusCode::kRemoteError);
}

TEST(Tcp, ConnectsAfterItsListenerOpensAndKeepsTrying) {
  const std::uint16_t port = test::reserved_port();
  const unsigned char loopback[4] = {127, 0, 0, 1};
  const auto address = SocketAddress::v4(std::span<const unsigned char, 4>(loopback), port);
  const auth::Digest key = auth::random_digest();
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    const auto listener = listen_tcp(address);
    ASSERT_TRUE(listener.ok()) << listener.error().text;
    pollfd entry{listener.value().get(), POLLIN, 0};
    ASSERT_TRUE(wait_ready({&entry, 1}, Deadline::of(100s), "accepting").ok());
    auto accepted = accept_tcp(listener.value());
    ASSERT_TRUE(accepted.ok() && accepted.value());
    auto link = bootstrap::FramedLink::make(std::move(accepted->value().socket), key,
                                            auth::Records::Side::kAcceptor)
                    .value();
    const auto frame = link.await(Deadline::of(100s), "reading");
    ASSERT_TRUE(frame.ok()) << frame.error().text;
    EXPECT_EQ(frame.value().payload.size(), std::size_t{3} << 20);
  });
  auto socket = connect_tcp({&address, 1}, Deadline::of(100s));
  EXPECT_TRUE(socket.ok()) << socket.error().text;
  if (socket.ok()) {
    auto link =
        bootstrap::FramedLink::make(std::move(*socket), key, auth::Records::Side::kConnector)
            .value();
    EXPECT_TRUE(link.send(1, 0, Bytes(std::size_t{3} << 20)).ok());
    EXPECT_TRUE(link.flush_all(Deadline::of(100s), "sending").ok());
  }
  late.join();
}

// Runs in a new network namespace with six ports; the ports that the kernel prefers are in use at
// ::1.
int listen_where_ports_are_few() {
  if (unshare(CLONE_NEWNET) != 0 || std::system("ip link set lo up") != 0) return 77;
  std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40005" << std::flush;
  const std::vector<SocketAddress> here = {resolve({"127.0.0.1", 0}, AF_INET).value()[0],
                                           resolve({"::1", 0}, AF_INET6).value()[0]};
  std::vector<Socket> taken;
  for (const std::uint16_t port : {40001, 40003, 40005, 40000, 40004})
    taken.push_back(listen_tcp(here[1].with_port(port)).value());
  const auto listening = listen_at(here);
  if (!listening.ok()) std::printf("%s\n", listening.error().text.c_str());
  return listening.ok() && listening->addresses[0].port() == 40002 ? 0 : 1;
}

TEST(Tcp, FindsTheOnePortThatIsFreeAtEveryAddress) {
  const pid_t child = fork();
  if (child == 0) _exit(listen_where_ports_are_few());
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(status, 0);
}

// A rank keeps an empty link for each child of its tree until that child connects. If joining
// fails, it reports the failure to its neighbours.
TEST(FramedLink, ToNobodyYetRefusesToSendAndToReceive) {
  bootstrap::FramedLink link;
  EXPECT_FALSE(link.valid());
  const auto sent = link.send(1, 0, {});
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.code(), StatusCode::kRemoteError);
  EXPECT_FALSE(link.unsent());
  const auto received = link.receive();
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().code, StatusCode::kRemoteError);
}

TEST(Tcp, EndsAtTheDeadlineAndNamesWhatItTried) {
  const std::uint16_t port = test::reserved_port();
  const unsigned char loopback[4] = {127, 0, 0, 1};
  const auto address = SocketAddress::v4(std::span<const unsigned char, 4>(loopback), port);
  const auto socket = connect_tcp({&address, 1}, Deadline::of(100ms));
  ASSERT_EQ(socket.code(), StatusCode::kTimeout);
  EXPECT_NE(socket.error().text.find(address.text()), std::string::npos) << socket.error().text;
  EXPECT_EQ(connect_tcp({&address, 1}, Deadline::of(10s, [] { return true; })).code(),
            StatusCode::kInvalidUsage);
}

// ---- deadlines, by a clock of this thread's own: each reading advances it by a step ----

constexpr std::chrono::milliseconds kStep{20}, kLimit{200};
constexpr int kLooks = 5;     // within the limit
constexpr int kReadings = 2;  // of the clock, for each look
static_assert(kLooks * kReadings * kStep == kLimit);

// How often a wait for sockets looks, if nothing comes, until `after` it has begun.
int looks_until(std::chrono::milliseconds after) {
  const test::SteppedClock clock(kStep);
  int looks = 0;
  const Deadline deadline{Clock::now() + after, [&] { return ++looks, false; }};
  EXPECT_EQ(wait_ready({}, deadline, "nothing comes").code(), StatusCode::kTimeout);
  return looks;
}

TEST(SocketDeadline, EndsAWaitAtItsTimeAndNotOneLookLater) {
  EXPECT_EQ(looks_until(kLimit - kStep), kLooks);
  EXPECT_EQ(looks_until(kLimit), kLooks);
  EXPECT_EQ(looks_until(kLimit + kStep), kLooks + 1);
}

TEST(SocketDeadline, IsTheTimeoutFromNow) {
  const test::SteppedClock clock(kStep);
  const auto now = Clock::now() + kStep;  // its own reading
  EXPECT_EQ((Deadline::of(kLimit).at - now).count(), std::chrono::nanoseconds(kLimit).count());
  const auto later = Deadline{now, {}}.later(kLimit);
  EXPECT_EQ((later.at - now).count(), std::chrono::nanoseconds(kLimit).count());
}

TEST(SocketDeadline, OfAnEarlierTimeEndsTheWaitAtThatTime) {
  const test::SteppedClock clock(kStep);
  int looks = 0;
  const auto begun = Clock::now();
  const Deadline deadline{begun + 10 * kLimit, [&] { return ++looks, false; }};
  const auto done = wait_until({}, begun + kLimit, deadline, "nothing comes");
  ASSERT_TRUE(done.ok()) << done.error().text;
  EXPECT_FALSE(*done);
  EXPECT_EQ(looks, kLooks);
}

}  // namespace
}  // namespace rondo::net

namespace rondo::bootstrap {
namespace {

TEST(IdContents, SurviveTheIdAndEveryChangedByteIsRefused) {
  IdContents contents;
  contents.port = 4321;
  contents.secret = auth::random_digest();
  for (const char* text : {"10.0.0.1:4321", "[2001:db8::7]:4321", "[::1]:4321"})
    contents.addresses.push_back(
        net::resolve(net::parse_host_port(text).value(), AF_UNSPEC).value().at(0));
  const UniqueId id = encode_id(contents);
  const auto back = decode_id(id);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value().addresses, contents.addresses);
  EXPECT_EQ(back.value().secret, contents.secret);
  for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
    UniqueId changed = id;
    changed.bytes[i] = static_cast<char>(changed.bytes[i] ^ 1);
    EXPECT_FALSE(decode_id(changed).ok()) << "byte " << i;
  }
}

TEST(BootstrapTree, EveryRankHasOneParentAndIsItsChild) {
  for (int size : {1, 2, 8, 9, 10, 64, 73, 74, 1000}) {
    int children = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Tree tree{rank, size};
      children += tree.children();
      if (tree.root()) continue;
      const Tree parent{tree.parent(), size};
      EXPECT_GE(rank, parent.first_child());
      EXPECT_LT(rank, parent.first_child() + parent.children());
      EXPECT_EQ(parent.depth() + 1, tree.depth());
      EXPECT_GT(parent.height(), tree.height());
    }
    EXPECT_EQ(children, size - 1);
  }
}

TEST(BootstrapMessages, RefuseEveryTruncation) {
  Join join;
  join.rank = 3;
  join.size = 9;
  join.place = {99, {net::SocketAddress::any(AF_INET, 0), net::SocketAddress::any(AF_INET6, 0)}};
  const Bytes bytes = join.encode();
  const auto back = Join::decode(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->encode(), bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(Join::decode(ByteSpan(bytes).first(length))) << length;
}

TEST(BootstrapMessages, RefuseEntriesOfRanksThatAreTwiceOrOutOfRange) {
  const auto entries = [](std::initializer_list<int> ranks) {
    ByteWriter out;
    for (int rank : ranks) append_entry(out, rank, {});
    return out.take();
  };
  EXPECT_TRUE(decode_entries(entries({0, 2, 1}), 3));
  EXPECT_FALSE(decode_entries(entries({0, 0}), 3));
  EXPECT_FALSE(decode_entries(entries({3}), 3));
}

}  // namespace
}  // namespace rondo::bootstrap
