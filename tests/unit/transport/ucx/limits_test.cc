// SPDX-License-Identifier: Apache-2.0
// Limits on UCX: it does not buffer without limit for a receiver that takes nothing, and it does
// not access memory of closed links. A peer that finds a worker but has no token cannot send a
// message.
#include <unistd.h>

#include <algorithm>

#include <fstream>

#include "tests/unit/transport/net/networks.h"
#ifdef RONDO_UCX
#include "transport/ucx/ucp/sides.h"
#include "transport/ucx/ucp/worker.h"

namespace rondo::test {
namespace {

using net::LinkState;

const NetworkKind kUcx{"Ucx", "UCX",
                       [](net::PortOptions options) { return open_ucx(std::move(options), "tcp"); },
                       true};

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// UCX sends small messages without a request: 64 of them per link, on 40 links.
TEST(UcxLimits, AReceiverThatTakesNothingBuffersNothing) {
  LinkPair pair(kUcx);
  ASSERT_TRUE(pair.connected);
  constexpr std::size_t kBytes = 32 << 10, kLinks = 40;
  Registered body(*pair.near_network, Bytes(kBytes));
  std::vector<std::unique_ptr<net::Link>> near, far;
  for (std::size_t i = 0; i < kLinks; ++i) {
    near.push_back(
        pair.near_network->connect({0, 1, 10 + static_cast<int>(i)}, pair.far_address).value());
    const auto step = [&] {
      pair.turn();
      near.back()->progress();
      if (auto arrived = pair.far_network->accept()) far.push_back(std::move(arrived));
      for (auto& link : far) link->progress();
    };
    ASSERT_TRUE(drive(step, [&] { return near.back()->state() == LinkState::kOpen; }));
  }
  const std::size_t before = resident_bytes();
  for (auto& link : near)
    for (std::uint64_t i = 0; i < net::Link::kDepth; ++i)
      ASSERT_TRUE(link->isend({}, body.bytes, body.key));
  for (int i = 0; i < 300; ++i) {
    pair.turn();
    for (auto& link : near) link->progress();
    for (auto& link : far) link->progress();
  }
  // If anything was sent, it was 80 MiB.
  EXPECT_LT(resident_bytes(), before + (8 << 20));
  for (auto& link : near) EXPECT_FALSE(link->test({0, true}).done);
}

// A link closed in the middle of large messages: its owner may reuse the memory.
TEST(UcxLimits, NothingIsWrittenIntoTheMemoryOfAClosedLink) {
  constexpr std::size_t kBytes = 8 << 20;
  for (int turns = 1; turns < 60; turns += 4) {
    LinkPair pair(kUcx);
    ASSERT_TRUE(pair.connected);
    Registered body(*pair.near_network, Bytes(kBytes, std::byte{1}));
    Registered room(*pair.far_network, Bytes(kBytes));
    std::vector<CallRecord> records(4);
    for (auto& record : records) {
      ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
      ASSERT_TRUE(pair.far->irecv(record, room.bytes, room.key));
    }
    for (int i = 0; i < turns; ++i) pair.turn();
    pair.far->close();
    std::fill(room.bytes.begin(), room.bytes.end(), std::byte{2});
    ASSERT_TRUE(pair.until([&] { return net::is_over(pair.near->state()); }));
    for (int i = 0; i < 200; ++i) pair.turn();
    ASSERT_EQ(std::ranges::count(room.bytes, std::byte{2}), static_cast<long>(kBytes)) << turns;
  }
}

// All links between two ranks share the closed connection, so a new link is refused. Links to other
// ranks still work.
TEST(UcxLimits, AfterALinkThatWasClosedInMidTransferThatRankIsNotReachedAgain) {
  LinkPair pair(kUcx);
  ASSERT_TRUE(pair.connected);
  Registered body(*pair.near_network, pattern(32 << 20, 1));
  Registered room(*pair.far_network, Bytes(32 << 20));
  CallRecord record;
  ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
  ASSERT_TRUE(pair.far->irecv(record, room.bytes, room.key));
  for (int i = 0; i < 6; ++i) pair.turn();
  ASSERT_FALSE(pair.near->test({0, true}).done);
  pair.near->close();
  ASSERT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
  pair.far.reset();
  pair.near = pair.near_network->connect({0, 1, 0}, pair.far_address).value();
  ASSERT_TRUE(pair.until([&] { return net::is_over(pair.near->state()); }));
  if (pair.far) {
    EXPECT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
  }
  const auto third = kUcx.at(2);
  const Bytes address = third->listen().value();
  const auto link = pair.near_network->connect({0, 2, 0}, address).value();
  std::unique_ptr<net::Link> accepted;
  const auto step = [&] {
    pair.turn();
    link->progress();
    third->poll();
    if (!accepted) accepted = third->accept();
    if (accepted) accepted->progress();
  };
  EXPECT_TRUE(drive(step, [&] { return link->state() == LinkState::kOpen; }));
}

TEST(UcxLimits, AWorkerTakesNothingWithoutAToken) {
  LinkPair pair(kUcx);
  ASSERT_TRUE(pair.connected);
  ::setenv("UCX_TLS", "tcp", 1);
  auto stranger = ucx::Worker::open().value();
  auto host = ucx::Worker::open().value();
  ::unsetenv("UCX_TLS");
  auto endpoint = stranger->endpoint_to(host->greeting(0)).value();
  ucx::SendSide sends(stranger->ucp());
  ucx::ReceiveSide unused(host->ucp(), host->get());
  ucx::SendSide of_host(host->ucp());
  const std::uint64_t token = host->add({&of_host, &unused});
  sends.open(endpoint, token + 1);
  ASSERT_TRUE(sends.push({}, {}, UCS_MEMORY_TYPE_HOST, 0));
  sends.take({0, 1, 0});
  const auto step = [&] {
    sends.progress();
    stranger->progress();
    host->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return sends.sent() == 1; }));
  for (int i = 0; i < 200; ++i) step();
  EXPECT_FALSE(unused.error());  // dropped; an accepted message without an offer would be an error
  host->remove(token);
}

// A grant larger than possible, and a message without a request.
TEST(UcxLimits, APeerThatLiesEndsItsLink) {
  ::setenv("UCX_TLS", "tcp", 1);
  auto worker = ucx::Worker::open().value();
  ::unsetenv("UCX_TLS");
  ucx::SendSide sends(worker->ucp());
  sends.take({0, 65, 0});
  ASSERT_TRUE(sends.error());
  EXPECT_NE(sends.error()->text.find("it offers 65 slots"), std::string::npos);
  ucx::SendSide confirmed(worker->ucp());
  confirmed.take({0, 10, 1});
  EXPECT_TRUE(confirmed.error()) << "what was never sent has come";
  ucx::ReceiveSide receives(worker->ucp(), worker->get());
  receives.open(worker->endpoint_to(worker->greeting(0)).value(), 1);
  EXPECT_EQ(receives.take({}, nullptr, 0, false), UCS_OK);
  ASSERT_TRUE(receives.error());
  EXPECT_NE(receives.error()->text.find("was not offered"), std::string::npos);
}

}  // namespace
}  // namespace rondo::test
#endif
