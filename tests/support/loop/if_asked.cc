// SPDX-License-Identifier: Apache-2.0
// RONDO_TEST_NETWORK selects the network for all internode traffic of this test program.
//   Loop   the loop network
//   IB     InfiniBand and RoCE, in the guest of tests/rdma; RONDO_TEST_HCA_<host> is NCCL_IB_HCA of
//          the ranks that NCCL_HOSTID places on that host
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/support/loop/add_loop_network.h"
#include "tests/support/loop/loop_network.h"
#include "transport/networks/open_network.h"
#include "transport/verbs/presence.h"

namespace rondo::test {
namespace {

constexpr const char* kVerbs = "IB";

Result<std::unique_ptr<net::Network>> open_verbs_of_host(const NetworkRequest& request) {
  if (const char* const host = std::getenv("NCCL_HOSTID"))
    if (const char* const ports = std::getenv((std::string("RONDO_TEST_HCA_") + host).c_str()))
      setenv("NCCL_IB_HCA", ports, 1);
  return verbs::open_network(port_options(request), false, request.near);
}

[[maybe_unused]] const bool added = [] {
  const char* const wanted = std::getenv("RONDO_TEST_NETWORK");
  const std::string_view name = wanted != nullptr ? wanted : "";
  if (name == LoopNetwork::kName) add_loop_network();
  if (name == kVerbs) add_network({kVerbs, open_verbs_of_host});
  return true;
}();

}  // namespace
}  // namespace rondo::test
