// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop/add_loop_network.h"

#include "tests/support/loop/loop_network.h"
#include "transport/networks/open_network.h"

namespace rondo::test {

void add_loop_network(std::function<std::string(int rank)> lacks, const std::string& name) {
  const auto open = [lacks = std::move(lacks)](
                        const NetworkRequest& request) -> Result<std::unique_ptr<net::Network>> {
    if (const std::string why = lacks ? lacks(request.rank) : ""; !why.empty())
      return fail(StatusCode::kSystemError, "{}", why);
    RONDO_TRY(auto network, LoopNetwork::open(port_options(request)));
    return std::unique_ptr<net::Network>(std::move(network));
  };
  add_network({name, open});
}

std::size_t registered_with_loop() { return LoopMemory::everywhere().load(); }

}  // namespace rondo::test
