// VerbsNetwork as networks of the suite that every network is asked: rank 0 on rxe0, rank 1 on
// rxe1.
#include "tests/unit/transport/net/networks.h"

#include "tests/rdma/ends.h"
#include "transport/verbs/ibverbs/verbs_network.h"

namespace rondo::test {
namespace {

std::unique_ptr<net::Network> open_verbs(net::PortOptions options, int queue_pairs) {
  verbs::NetworkOptions wanted{std::move(options)};
  wanted.verbs = verbs::quick_to_fail();
  wanted.verbs.queue_pairs = queue_pairs;
  wanted.local_rank = wanted.rank;
  return verbs::VerbsNetwork::open(std::move(wanted)).value();
}

// Before main(): the suite's instances are made of what is there then.
const bool kAdded = [] {
  auto& kinds = network_kinds();
  kinds.clear();
  if (verbs::guest_ports().size() < 2) return false;
  kinds.push_back({"OnePair", verbs::VerbsNetwork::kName,
                   [](auto options) { return open_verbs(std::move(options), 1); }});
  kinds.push_back({"FourPairs", verbs::VerbsNetwork::kName,
                   [](auto options) { return open_verbs(std::move(options), 4); }});
  return true;
}();

}  // namespace
}  // namespace rondo::test
