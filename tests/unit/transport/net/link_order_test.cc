// SPDX-License-Identifier: Apache-2.0
// Rules that RemoteLinks keeps towards a network: the order of destruction, and that it polls every
// part.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

#include "kernels/host/slots.h"
#include "tests/support/enough_time.h"
#include "transport/net/remote_links.h"

namespace rondo::net {
namespace {

// Actions of a network's links, recorded by the network.
struct Record {
  int registered = 0, live_links = 0, polls = 0, arms = 0, sleeps = 0;
  bool unregistered_under_a_link = false;
  bool someone_waits = false;            // a peer has opened a link; poll() returns it
  LinkState control = LinkState::kOpen;  // of all links of the control lane
};

// Accepts every message at once and never receives one.
class EagerLink final : public Link {
 public:
  EagerLink(const LinkName& name, Record& record) : name_(name), record_(record) {
    ++record_.live_links;
  }
  ~EagerLink() override {
    // Writes like an adapter that still uses the memory.
    if (!room_.empty()) room_[0] = std::byte{1};
    --record_.live_links;
  }
  const LinkName& name() const override { return name_; }
  std::optional<Request> isend(const CallRecord&, std::span<const std::byte>, MemoryKey,
                               std::uint32_t) override {
    return Request{sent_++, true};
  }
  std::optional<Request> irecv(CallRecord&, std::span<std::byte> room, MemoryKey) override {
    room_ = room;
    return Request{received_++, false};
  }
  Completion test(Request request) const override { return {request.sending, 0, 0}; }
  bool progress() override { return false; }
  LinkState state() const override {
    return name_.lane == kControlLane ? record_.control : LinkState::kOpen;
  }
  const Error& error() const override { return error_; }
  void close() override {}

 private:
  const LinkName name_;
  Record& record_;
  const Error error_{StatusCode::kRemoteError, "the control lane is over"};
  std::span<std::byte> room_;
  std::uint64_t sent_ = 0, received_ = 0;
};

class CountingNetwork final : public Network {
 public:
  explicit CountingNetwork(Record& record) : record_(record) {}
  std::string_view name() const override { return "counting"; }
  Result<std::vector<std::byte>> listen() override { return std::vector<std::byte>(1); }
  Result<std::unique_ptr<Link>> connect(const LinkName& name, std::span<const std::byte>) override {
    return std::unique_ptr<Link>(new EagerLink(name, record_));
  }
  std::unique_ptr<Link> accept() override {
    if (!shown_) return nullptr;
    shown_ = false;
    return std::make_unique<EagerLink>(LinkName{0, 1, kPointToPointLane}, record_);
  }
  bool takes(Memory::Kind) const override { return true; }
  Result<MemoryKey> register_memory(const Memory&) override {
    return MemoryKey(++record_.registered);
  }
  void deregister_memory(MemoryKey) override {
    --record_.registered;
    record_.unregistered_under_a_link |= record_.live_links > 0;
  }
  bool poll() override {
    ++record_.polls;
    shown_ = std::exchange(record_.someone_waits, false);
    return shown_;
  }
  bool arm() override {
    ++record_.arms;
    return true;
  }
  int poll_fd() const override {
    ++record_.sleeps;
    return -1;
  }

 private:
  Record& record_;
  bool shown_ = false;
};

std::unique_ptr<RemoteLinks> links_of(int rank, Record& record) {
  RemoteLinksOptions options;
  options.rank = rank;
  options.size = 3;
  options.slots = {4096, 4};
  options.network = std::make_unique<CountingNetwork>(record);
  auto links = RemoteLinks::open(std::move(options));
  if (!links.ok()) return nullptr;
  (*links)->set_peers(std::vector<std::vector<std::byte>>(3, std::vector<std::byte>(1)));
  return std::move(links).value();
}

TEST(RemoteLinksOrder, LinksEndBeforeTheirMemoryIsDeregisteredAndUnmapped) {
  Record record;
  auto links = links_of(0, record);
  ASSERT_NE(links, nullptr);
  ASSERT_TRUE(links->sender(1, kCollectiveLane).ok());
  ASSERT_TRUE(links->receiver(1, kCollectiveLane).ok());
  ASSERT_TRUE(links->send_control(1, std::vector<std::byte>(10)).ok());
  links->progress();
  EXPECT_EQ(record.live_links, 2);
  EXPECT_EQ(record.registered, 4);  // slots for both directions, of data and of control
  links.reset();
  EXPECT_EQ(record.live_links, 0);
  EXPECT_EQ(record.registered, 0);
  EXPECT_FALSE(record.unregistered_under_a_link);
}

TEST(RemoteLinksOrder, ALineThatKeepsMovingHidesNoPeer) {
  Record record;
  auto links = links_of(1, record);
  ASSERT_NE(links, nullptr);
  auto busy = links->sender(2, kCollectiveLane);
  ASSERT_TRUE(busy.ok());
  ASSERT_TRUE(links->sender(0, kPointToPointLane).ok());  // rank 0 is the side that connects
  EXPECT_EQ(record.live_links, 2);                        // and the control link to rank 0
  record.someone_waits = true;
  host::SendEnd<> end(**busy);
  for (int i = 0; i < 1000; ++i) {
    if (end.ready()) end.push(0, {});
    ASSERT_TRUE(links->progress());
  }
  EXPECT_EQ(record.live_links, 3) << "the link that rank 0 opened was never looked at";
  EXPECT_LT(record.polls, 100) << "a busy line is not held up by system calls";
}

TEST(RemoteLinksOrder, AFlushThatWaitsArmsTheNetwork) {
  test::with_enough_time(std::chrono::milliseconds(20), [](auto time) -> std::string {
    Record record;
    auto links = links_of(1, record);
    if (links == nullptr) return "no links";
    auto out = links->sender(0, kCollectiveLane);  // rank 0 never opens it
    if (!out.ok()) return out.error().text;
    host::SendEnd<>(**out).push(0, {});
    (void)links->flush(std::chrono::steady_clock::now() + time).ok();
    EXPECT_EQ(record.sleeps, record.arms);
    return record.sleeps > 0 ? "" : "it did not sleep";
  });
}

// A peer that leaves closes all its lanes. On a network that loses packets, the end of one lane may
// arrive seconds before the last bytes of another. If a lane broke, the limit is one second.
TEST(RemoteLinksOrder, DataMayComeAfterThePeerHasClosedItsControlLane) {
  const auto is_over_after = [](LinkState how, std::chrono::milliseconds time) {
    Record record;
    auto links = links_of(0, record);
    if (links == nullptr) std::abort();
    EXPECT_TRUE(links->receiver(1, kCollectiveLane).ok());
    EXPECT_TRUE(links->send_control(1, std::vector<std::byte>(10)).ok());
    record.control = how;
    links->progress();
    std::this_thread::sleep_for(time);
    return !links->error_of(1).ok();
  };
  constexpr std::chrono::milliseconds kTime(1500);
  EXPECT_TRUE(is_over_after(LinkState::kEnded, kTime));
  // Again if this thread stood still until the limit of 15 s.
  test::with_enough_time(kTime, [&](auto) -> std::string {
    return is_over_after(LinkState::kClosed, kTime) ? "the rest of the data is not awaited" : "";
  });
}

// A lane on which this rank only sends delivers nothing.
TEST(RemoteLinksOrder, WhoOnlySendsLearnsOfThePeersEndAtOnce) {
  Record record;
  auto links = links_of(0, record);
  ASSERT_NE(links, nullptr);
  ASSERT_TRUE(links->sender(1, kCollectiveLane).ok());
  ASSERT_TRUE(links->send_control(1, std::vector<std::byte>(10)).ok());
  EXPECT_TRUE(links->error_of(1).ok());
  record.control = LinkState::kClosed;
  links->progress();
  EXPECT_FALSE(links->error_of(1).ok());
}

}  // namespace
}  // namespace rondo::net
