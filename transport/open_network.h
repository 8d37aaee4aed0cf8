// open_network(): the one place that knows which networks there are. A network is a folder beside
// tcp/ that implements net::Network (transport/net/net.h), and a row in open_network.cc.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "transport/net/net.h"

namespace rondo {

struct NetworkRequest {
  int rank = 0;                        // of this process, as its peers number it
  std::array<std::byte, 32> secret{};  // of the communicator: only its holders get a link
  std::string purpose = "links";       // of several networks with one secret
  int streams = 0;                     // a link of a data lane; 0: by the environment
};

// The network that NCCL_NET names, or the first one. All ranks must name the same: where they do
// not, connect() cannot read the address of a peer, and says so.
const char* network_name();
// By the environment's variables. Fails where the network cannot be used here, and says why.
Result<std::unique_ptr<net::Network>> open_network(const NetworkRequest& request);

}  // namespace rondo
