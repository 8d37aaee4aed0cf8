// NCCL_NET chooses the network between hosts.
#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "transport/open_network.h"

namespace rondo::test {
namespace {

TEST(OpenNetwork, TakesTheOneThatIsNamedInWhateverCase) {
  const WithEnvironment named("NCCL_NET", "socket");
  EXPECT_STREQ(network_name(), "Socket");
  EXPECT_EQ(open_network({}).value()->name(), network_name());
}

TEST(OpenNetwork, TakesTheFirstWhereNobodyHasTheNamedOne) {
  const WithEnvironment named("NCCL_NET", "IB");
  EXPECT_STREQ(network_name(), "Socket");
  EXPECT_EQ(open_network({}).value()->name(), network_name());
}

}  // namespace
}  // namespace rondo::test
