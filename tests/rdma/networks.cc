// SPDX-License-Identifier: Apache-2.0
// VerbsNetwork in the suite that every network must pass: rank 0 on rxe0, and rxe2 if there are two
// rails, rank 1 on rxe1 and rxe3.
#include "tests/unit/transport/net/networks.h"

#include "tests/rdma/ends.h"
#include "transport/verbs/ibverbs/verbs_network.h"

namespace rondo::test {
namespace {

std::unique_ptr<net::Network> open_verbs(net::PortOptions options, const char* const (&ports)[2],
                                         int queue_pairs) {
  verbs::NetworkOptions wanted{std::move(options)};
  wanted.verbs = verbs::quick_to_fail();
  wanted.verbs.queue_pairs = queue_pairs;
  wanted.verbs.hca = ports[wanted.rank % 2];
  return verbs::VerbsNetwork::open(std::move(wanted)).value();
}

#ifdef RONDO_UCX
// UCX connects queue pairs by datagrams. Here it loses them between IPv4 addresses; the IPv6 ones,
// which come first, belong to this host alone and cross no wire.
std::unique_ptr<net::Network> open_ucx_over_verbs(net::PortOptions options) {
  ::setenv("UCX_IB_GID_INDEX", "0", 1);
  ::setenv("UCX_NET_DEVICES", options.rank % 2 == 0 ? "rxe0:1" : "rxe1:1", 1);
  auto network = open_ucx(std::move(options), "rc");
  ::unsetenv("UCX_NET_DEVICES");
  return network;
}
#endif

constexpr const char* kOneRail[] = {"=rxe0", "=rxe1"};
constexpr const char* kTwoRails[] = {"=rxe0,rxe2", "=rxe1,rxe3"};

// Runs before main(), because the suite's instances are created from the kinds that exist then.
const bool kAdded = [] {
  auto& kinds = network_kinds();
  kinds.clear();
  const auto add = [&](const char* name, const char* const(&ports)[2], int queue_pairs) {
    kinds.push_back({name, verbs::VerbsNetwork::kName,
                     [&ports, queue_pairs](auto options) {
                       return open_verbs(std::move(options), ports, queue_pairs);
                     },
                     false, true});
  };
  const std::size_t devices = verbs::guest_ports().size();
  if (devices >= 2) add("OnePair", kOneRail, 1);
  if (devices >= 2) add("FourPairs", kOneRail, 4);
  if (devices >= 4) add("TwoRails", kTwoRails, 2);
#ifdef RONDO_UCX
  if (devices >= 2) kinds.push_back({"UcxOverVerbs", "UCX", open_ucx_over_verbs, true});
#endif
  return true;
}();

}  // namespace
}  // namespace rondo::test
