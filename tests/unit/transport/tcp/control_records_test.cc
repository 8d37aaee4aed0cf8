// A man in the middle of a control link changes, inserts or removes any byte. Only messages that
// were sent arrive, and the link ends.
#include <sys/socket.h>

#include <algorithm>

#include "tests/unit/transport/tcp/pair.h"
#include "transport/tcp/tcp_link.h"

namespace rondo::test {
namespace {

using net::LinkState;
using net::Stream;

// One end's socket, and its other end, which the man in the middle holds.
struct Ends {
  Ends() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    own = net::Socket(fds[0]);
    middle = net::Socket(fds[1]);
  }
  net::Socket own, middle;
};

enum class Change { kNone, kFlip, kInsert, kLose };

class Middle {
 public:
  Middle(int from, int to, Change change, std::size_t at, std::byte with)
      : from_(from), to_(to), change_(change), at_(at), with_(with) {}

  void pass() {
    std::byte buffer[16 << 10];
    const ssize_t count = ::recv(from_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count <= 0) return;
    Bytes bytes(buffer, buffer + count);
    const std::size_t begin = passed_;
    passed_ += bytes.size();
    if (at_ >= begin && at_ < passed_) {
      const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at_ - begin);
      if (change_ == Change::kFlip) *place ^= with_;
      if (change_ == Change::kInsert) bytes.insert(place, with_);
      if (change_ == Change::kLose) bytes.erase(place);
    }
    EXPECT_EQ(::send(to_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

 private:
  const int from_, to_;
  const Change change_;
  const std::size_t at_;
  const std::byte with_;
  std::size_t passed_ = 0;
};

constexpr std::size_t kMessages = 30;
constexpr std::size_t length_of(std::size_t message) { return 800 + 7 * message; }

// Number of messages that arrived unchanged; -1 if another message arrived.
int play(net::Poller& poller, Change change, std::size_t at, std::byte with, std::string& error) {
  static const Bytes body = pattern(1100, 3);
  const auth::Digest key = auth::random_digest();
  Ends near_ends, far_ends;
  const auto open = [&](Ends& ends, int peer, auth::Records::Side side) {
    std::vector<std::unique_ptr<Stream>> streams;
    streams.push_back(std::make_unique<Stream>(poller, std::move(ends.own)));
    streams[0]->seal(auth::Records::make(key, side).value());
    return std::make_unique<tcp::TcpLink>(net::LinkName{peer, 1 - peer, net::kControlLane},
                                          net::Vigilance{}, "there", std::move(streams));
  };
  auto near = open(near_ends, 1, auth::Records::Side::kConnector);
  auto far = open(far_ends, 0, auth::Records::Side::kAcceptor);
  Middle middle(near_ends.middle.get(), far_ends.middle.get(), change, at, with);
  std::vector<Bytes> rooms(kMessages, Bytes(body.size()));
  std::vector<CallRecord> records(kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    CallRecord record;
    record.count = i;
    EXPECT_TRUE(near->isend(record, std::span(body).first(length_of(i)), 0));
    EXPECT_TRUE(far->irecv(records[i], rooms[i], 0));
  }
  const auto step = [&] {
    poller.wait(std::chrono::milliseconds(0));
    near->progress();
    middle.pass();
    far->progress();
  };
  const auto over = [&] {
    return net::is_over(far->state()) || far->test({kMessages - 1, false}).done;
  };
  EXPECT_TRUE(drive(step, over));
  if (net::is_over(far->state())) error = far->error().text;
  std::size_t arrived = 0;
  while (arrived < kMessages && far->test({arrived, false}).done) {
    const std::size_t bytes = far->test({arrived, false}).bytes;
    if (bytes != length_of(arrived) || records[arrived].count != arrived ||
        !std::equal(rooms[arrived].begin(), rooms[arrived].begin() + static_cast<long>(bytes),
                    body.begin()))
      return -1;
    ++arrived;
  }
  return static_cast<int>(arrived);
}

TEST(TcpControlRecords, ArriveWhereNobodyChangesThem) {
  auto poller = net::Poller::open().value();
  std::string error;
  EXPECT_EQ(play(poller, Change::kNone, 0, {}, error), static_cast<int>(kMessages));
  EXPECT_EQ(error, "");
}

TEST(TcpControlRecords, TenThousandChangedInsertedOrLostBytesAreAllNoticed) {
  auto poller = net::Poller::open().value();
  // An increased length is detected once that many bytes have arrived, so all changes are among the
  // first records.
  constexpr std::size_t kStream = 2000;
  std::mt19937 random(14);
  for (int turn = 0; turn < 10'000; ++turn) {
    const auto change = static_cast<Change>(1 + random() % 3);
    const std::size_t at = random() % kStream;
    const auto with = static_cast<std::byte>(1 + random() % 255);
    std::string error;
    const int arrived = play(poller, change, at, with, error);
    ASSERT_GE(arrived, 0) << "turn " << turn;
    ASSERT_LT(arrived, static_cast<int>(kMessages)) << "turn " << turn << ": byte " << at;
    ASSERT_NE(error.find("does not verify"), std::string::npos) << error;
    ASSERT_NE(error.find("rank 0"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace rondo::test
