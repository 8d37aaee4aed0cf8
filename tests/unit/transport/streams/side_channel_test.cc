// SPDX-License-Identifier: Apache-2.0
// Side channels between two ranks of one thread: one blob each way, then silence, then the end.
#include "transport/streams/side_channel.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/transport/net/turns.h"

namespace rondo::net {
namespace {

using test::drive;
using test::pattern;
using State = SideChannel::State;

bool always(int) { return true; }

PortOptions options(int rank, int secret = 1) {
  PortOptions made;
  made.rank = rank;
  made.secret = auth::secret_of(secret);
  made.network = "test";
  made.vigilance.seconds = 1;
  made.addresses = {test::loopback("127.0.0.1")};
  return made;
}

struct Pair {
  explicit Pair(bool farewells = false)
      : here(SideChannels::open(options(0), farewells).value()),
        there(SideChannels::open(options(1), farewells).value()) {}

  std::unique_ptr<SideChannels> here, there;
  Bytes address = there->listen().value();
  std::unique_ptr<SideChannel> near, far;

  void accept(ByteSpan blob) {
    there->poll();
    if (far) far->progress();
    if (!far && (far = there->accept())) {
      EXPECT_TRUE(far->answer(blob));
    }
  }
  bool open(ByteSpan mine, ByteSpan theirs) {
    near = here->connect({0, 1, 7}, address, mine).value();
    const auto step = [&] {
      near->progress();
      here->poll();
      accept(theirs);
    };
    return drive(step, [&] { return far && near->state() == State::kOpen; });
  }
  // Runs the channel to its end, whatever the other side does.
  State end_of(SideChannel& channel) {
    const auto step = [&] {
      here->poll();
      there->poll();
      channel.progress();
    };
    EXPECT_TRUE(drive(step, [&] { return channel.state() >= State::kClosed; }));
    return channel.state();
  }
};

// A rank of the communicator that sends arbitrary bytes: its end of a stream.
struct Liar {
  std::unique_ptr<StreamPort> port = StreamPort::open(options(0), always).value();
  std::unique_ptr<Stream> stream;

  Liar(Pair& pair, Bytes greeting) {
    auto connector = port->connect({0, 1, 7}, 1, pair.address, std::move(greeting)).value();
    const auto step = [&] {
      connector->progress();
      port->poll();
      pair.accept({});
    };
    EXPECT_TRUE(drive(step, [&] { return connector->finished(); }));
    stream = std::move(connector->take().front());
  }
  void send(Bytes bytes) const {
    iovec part{bytes.data(), bytes.size()};
    EXPECT_EQ(stream->write({&part, 1}).bytes, bytes.size());
  }
  bool is_dropped() const {
    std::byte one;
    iovec part{&one, 1};
    port->poll();
    return stream->readable() && stream->read({&part, 1}).over();
  }
};

TEST(SideChannel, CarriesABlobEachWay) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{515}, SideChannel::kMaxBlob}) {
    const Bytes mine = pattern(bytes, 1), theirs = pattern(SideChannel::kMaxBlob - bytes, 2);
    Pair pair;
    ASSERT_TRUE(pair.open(mine, theirs));
    EXPECT_EQ(pair.far->name(), (LinkName{0, 1, 7}));
    EXPECT_TRUE(std::ranges::equal(pair.far->blob(), mine));
    EXPECT_TRUE(std::ranges::equal(pair.near->blob(), theirs));
    EXPECT_FALSE(pair.near->progress());
    EXPECT_FALSE(pair.far->progress());
  }
}

TEST(SideChannel, RefusesALongerBlobBeforeAnythingIsSent) {
  const Bytes long_one(SideChannel::kMaxBlob + 1);
  Pair pair;
  EXPECT_FALSE(pair.here->connect({0, 1, 7}, pair.address, long_one).ok());
  ASSERT_TRUE(pair.open({}, {}));
  EXPECT_FALSE(pair.far->answer(long_one));
}

// The connector's blob arrives with its proof. A rank that then computes delays no peer that needs
// the blob.
TEST(SideChannel, TheConnectorsBlobComesWithItsProof) {
  Pair pair;
  pair.near = pair.here->connect({0, 1, 7}, pair.address, pattern(1000, 1)).value();
  while (!pair.far) {
    pair.near->progress();
    pair.here->poll();
    const auto until = test::Clock::now() + std::chrono::milliseconds(100);
    while (!pair.far && test::Clock::now() < until) pair.accept({});
  }
  EXPECT_EQ(pair.near->address(), "") << "it had to read the welcome first";
}

TEST(SideChannel, APeerThatSendsMoreIsEnded) {
  Pair pair;
  const Liar liar(pair, SideChannel::frame(pattern(10, 1)));
  ASSERT_TRUE(drive([&] { pair.accept({}); }, [&] { return pair.far != nullptr; }));
  liar.send(Bytes(1));
  EXPECT_EQ(pair.end_of(*pair.far), State::kEnded);
  EXPECT_NE(pair.far->why().find("sent more"), std::string::npos) << pair.far->why();
}

TEST(SideChannel, ABlobThatIsTooLongIsNotReadAndItsPeerIsDropped) {
  Pair pair;
  const Liar liar(pair, SideChannel::frame(Bytes(SideChannel::kMaxBlob + 1)));
  EXPECT_TRUE(drive([&] { pair.accept({}); }, [&] { return liar.is_dropped(); }));
  EXPECT_EQ(pair.far, nullptr);
}

TEST(SideChannel, AProvenPeerThatSendsNothingIsDroppedInTime) {
  for (const Bytes& half : {Bytes{}, Bytes(3), SideChannel::frame(Bytes(20))}) {
    Pair pair;
    const Liar liar(pair, half.size() > 4 ? Bytes(half.begin(), half.end() - 1) : half);
    EXPECT_TRUE(drive([&] { pair.accept({}); }, [&] { return liar.is_dropped(); }));
    EXPECT_EQ(pair.far, nullptr);
  }
}

TEST(SideChannel, AStrangerAndTheStreamsOfOtherNetworksOpenNone) {
  Pair pair;
  PortOptions other_network = options(0);
  other_network.network = "tcp";
  for (const PortOptions& stranger : {options(0, 2), other_network}) {
    auto port = SideChannels::open(stranger).value();
    auto channel = port->connect({0, 1, 7}, pair.address, {}).value();
    const auto until = test::Clock::now() + std::chrono::milliseconds(200);
    while (test::Clock::now() < until) {
      channel->progress();
      port->poll();
      pair.accept({});
    }
    EXPECT_EQ(channel->state(), State::kOpening);
    EXPECT_EQ(pair.far, nullptr);
  }
  EXPECT_TRUE(pair.open({}, {}));
}

TEST(SideChannel, ACloseIsThePeersEndAndItsBlobStays) {
  for (const bool near_closes : {true, false}) {
    Pair pair;
    const Bytes blob = pattern(100, 3);
    ASSERT_TRUE(pair.open(blob, blob));
    (near_closes ? pair.near : pair.far)->close();
    SideChannel& stayer = near_closes ? *pair.far : *pair.near;
    EXPECT_EQ(pair.end_of(stayer), State::kClosed);
    EXPECT_TRUE(std::ranges::equal(stayer.blob(), blob));
  }
}

TEST(SideChannel, AFarewellIsTheLastWordBeforeTheClose) {
  for (const bool near_leaves : {true, false}) {
    Pair pair(true);
    ASSERT_TRUE(pair.open({}, {}));
    SideChannel& leaver = near_leaves ? *pair.near : *pair.far;
    SideChannel& stayer = near_leaves ? *pair.far : *pair.near;
    leaver.leave(0x123456789abcdef0);
    EXPECT_EQ(stayer.farewell(), std::nullopt) << "before it has come";
    EXPECT_EQ(pair.end_of(stayer), State::kClosed);
    EXPECT_EQ(stayer.farewell(), 0x123456789abcdef0u);
  }
}

TEST(SideChannel, WhoEndsWithoutAFarewellHasSentNone) {
  Pair pair(true);
  ASSERT_TRUE(pair.open({}, {}));
  pair.near->close();
  EXPECT_EQ(pair.end_of(*pair.far), State::kClosed);
  EXPECT_EQ(pair.far->farewell(), std::nullopt);
}

TEST(SideChannel, HalfAFarewellIsNoneAndMoreIsTooMuch) {
  for (const std::size_t bytes : {7, 9}) {
    Pair pair(true);
    const Liar liar(pair, SideChannel::frame(pattern(10, 1)));
    ASSERT_TRUE(drive([&] { pair.accept({}); }, [&] { return pair.far != nullptr; }));
    liar.send(Bytes(bytes));
    close_gently(*liar.stream);
    EXPECT_EQ(pair.end_of(*pair.far), bytes == 7 ? State::kClosed : State::kEnded);
    if (bytes == 7) {
      EXPECT_EQ(pair.far->farewell(), std::nullopt);
    }
  }
}

// For networks that have no farewell.
TEST(SideChannel, AFarewellThatNobodyExpectsEndsTheChannel) {
  Pair pair;
  ASSERT_TRUE(pair.open({}, {}));
  pair.near->leave(3);
  EXPECT_EQ(pair.end_of(*pair.far), State::kEnded);
}

TEST(SideChannel, WhoLeavesUnreadBytesHasClosedAllTheSame) {
  Pair pair;
  pair.near = pair.here->connect({0, 1, 7}, pair.address, {}).value();
  const auto step = [&] {
    pair.near->progress();
    pair.here->poll();
    pair.there->poll();
    if (!pair.far) pair.far = pair.there->accept();
  };
  ASSERT_TRUE(drive(step, [&] { return pair.far && !pair.near->address().empty(); }));
  ASSERT_TRUE(pair.far->answer(pattern(100, 4)));
  pair.near->close();
  EXPECT_EQ(pair.end_of(*pair.far), State::kClosed);
}

// The connector sees the blob sent before the close, whatever its own state was.
TEST(SideChannel, ABlobBeforeTheCloseIsSeen) {
  Pair pair;
  pair.near = pair.here->connect({0, 1, 7}, pair.address, {}).value();
  const auto step = [&] {
    pair.near->progress();
    pair.here->poll();
    pair.accept(pattern(100, 4));
  };
  ASSERT_TRUE(drive(step, [&] { return pair.far != nullptr; }));
  pair.far->close();
  std::vector<State> seen;
  const auto look = [&] {
    pair.here->poll();
    pair.near->progress();
    if (seen.empty() || seen.back() != pair.near->state()) seen.push_back(pair.near->state());
  };
  ASSERT_TRUE(drive(look, [&] { return pair.near->state() >= State::kClosed; }));
  seen.erase(std::remove(seen.begin(), seen.end(), State::kOpening), seen.end());
  EXPECT_EQ(seen, (std::vector<State>{State::kOpen, State::kClosed}));
}

TEST(SideChannel, AnEndIsSeenThoughAForkedChildLives) {
  Pair pair;
  ASSERT_TRUE(pair.open({}, {}));
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(gate[1]);
    char nothing;
    (void)!::read(gate[0], &nothing, 1);
    ::_exit(0);
  }
  ::close(gate[0]);
  pair.near->close();
  EXPECT_EQ(pair.end_of(*pair.far), State::kClosed);
  ::close(gate[1]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace rondo::net
