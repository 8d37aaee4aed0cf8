// SPDX-License-Identifier: Apache-2.0
// Tests only for TCP's links; the conformance tests are in tests/unit/transport/net.
#include "tests/unit/transport/tcp/pair.h"

namespace rondo::test {
namespace {

TEST(TcpLink, TriesTheNextAddressWhereAnotherCommunicatorListens) {
  auto near = open_network(1, 2);
  auto stranger = open_network(2, 2);
  auto far = open_network(1, 2);
  auto candidates = net::decode_addresses(stranger->listen().value()).value();
  candidates.push_back(net::decode_addresses(far->listen().value()).value().front());
  auto link = near->connect({0, 1, 0}, net::encode_addresses(candidates)).value();
  std::unique_ptr<net::Link> accepted;
  const auto step = [&] {
    near->poll();
    far->poll();
    stranger->poll();
    link->progress();
    EXPECT_EQ(stranger->accept(), nullptr);
    if (!accepted) accepted = far->accept();
  };
  ASSERT_TRUE(drive(step, [&] { return accepted && link->state() == net::LinkState::kOpen; }));
  EXPECT_EQ(accepted->name(), link->name());
}

}  // namespace
}  // namespace rondo::test
