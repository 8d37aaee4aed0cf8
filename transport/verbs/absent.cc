// SPDX-License-Identifier: Apache-2.0
// The build without <infiniband/verbs.h>.
#include "transport/verbs/presence.h"

namespace rondo::verbs {
namespace {

Error absence() {
  return fail(StatusCode::kSystemError,
              "this library was built without InfiniBand and RoCE: build it where libibverbs-dev "
              "(infiniband/verbs.h) is installed");
}

}  // namespace

Result<std::vector<std::string>> offered_devices() { return absence(); }

Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions&, bool,
                                                   const topology::NearNics&) {
  return absence();
}

}  // namespace rondo::verbs
