// open_network(): the one place that knows which networks there are.
//
// A network is a folder beside tcp/ that implements net::Network (transport/net/net.h), and a row
// of the table in open_network.cc. Which one the ranks of a communicator take, they agree on:
// transport/network_agreement.h.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/graph/nearness.h"
#include "transport/net/net.h"
#include "transport/streams/stream_port.h"

namespace rondo {

struct NetworkRequest {
  int rank = 0;                        // of this process, as its peers number it
  std::array<std::byte, 32> secret{};  // of the communicator: only its holders get a link
  std::string purpose = "links";       // of several networks with one secret
  int streams = 0;                     // a link of a data lane; 0: by the environment
  bool by_default = false;             // nobody asks for it: only where it is worth it
  topology::NearNics near{};           // ports of this host, by how near they are to the rank
  std::vector<net::SocketAddress> addresses{};  // as PortOptions has them
};
// Those of a network's own port: these, and the environment's.
net::PortOptions port_options(const NetworkRequest& request);

struct NetworkRow {
  std::string name;  // as NCCL_NET has it
  // By the environment's variables. Fails where it cannot be used here, and says why.
  std::function<Result<std::unique_ptr<net::Network>>(const NetworkRequest& request)> open;
};

// The network of control messages, whatever carries the data: it is everywhere.
inline constexpr const char* kControlNetwork = "Socket";
// The one whose ports NCCL_IB_HCA chooses.
inline constexpr const char* kRdmaNetwork = "IB";

// One that there may be here.
struct NetworkChoice {
  std::string name;
  bool by_plugin_variable = false;  // NCCL_NET_PLUGIN asks for it
};
// In order of preference; those behind the control network only where a rank asks for them. A
// plugin's is the first; where it cannot be loaded, it has the variable's value for a name. Names
// are compared without regard to case.
std::vector<NetworkChoice> network_choices();
bool same_network(std::string_view one, std::string_view other);
// A row before all others, of a network that is no part of the library: a plugin's, a test's.
// Before communicators are made; one of the same name is replaced.
void add_network(NetworkRow row);

// kInvalidUsage: there is none of that name.
Result<std::unique_ptr<net::Network>> open_network(std::string_view name,
                                                   const NetworkRequest& request);

}  // namespace rondo
