// SPDX-License-Identifier: Apache-2.0
// Two ranks whose UCX transports cannot reach each other: both ends report the reason.
#include "tests/unit/transport/net/networks.h"

#ifdef RONDO_UCX
namespace rondo::test {
namespace {

net::PortOptions options_of(int rank) {
  net::PortOptions options;
  options.secret = secret_of(1);
  options.rank = rank;
  return options;
}

TEST(UcxRefusal, OfTheEndWithoutAWayIsSentToTheOtherWithItsReason) {
  const auto near = open_ucx(options_of(0), "tcp");
  const auto far = open_ucx(options_of(1), "posix");
  const Bytes address = far->listen().value();
  const auto link = near->connect({0, 1, 0}, address).value();
  const auto step = [&] {
    near->poll();
    far->poll();
    EXPECT_EQ(far->accept(), nullptr);
    link->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return net::is_over(link->state()); }));
  EXPECT_EQ(link->error().code, StatusCode::kSystemError);
  const std::string& text = link->error().text;
  EXPECT_NE(text.find("it cannot reach this rank by UCX"), std::string::npos) << text;
  EXPECT_NE(text.find("UCX_TLS"), std::string::npos) << text;
}

}  // namespace
}  // namespace rondo::test
#endif
