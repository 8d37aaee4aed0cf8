// SPDX-License-Identifier: Apache-2.0
// open_network(): the table of all available networks, and the function that opens one of them.
//
// A network is a folder beside tcp/ that implements net::Network (transport/net/net.h), and a row
// of the table in open_network.cc. transport/networks/network_agreement.h chooses the network of a
// communicator.
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
  int rank = 0;                        // of this process, as peers number it
  std::array<std::byte, 32> secret{};  // of the communicator: only its holders get a link
  std::string purpose = "links";       // distinguishes networks with the same secret
  int streams = 0;                     // streams per link of a data lane; 0: from the environment
  bool by_default = false;             // no rank asks for it by name: open it only if worthwhile
  topology::NearNics near{};           // ports of this host, by distance from the rank
  std::vector<net::SocketAddress> addresses{};  // see PortOptions
};
// The options of a network's own port, from the request and the environment.
net::PortOptions port_options(const NetworkRequest& request);

struct NetworkRow {
  std::string name;  // value of NCCL_NET
  // Opens it by the environment variables. The error says why it cannot be used here.
  std::function<Result<std::unique_ptr<net::Network>>(const NetworkRequest& request)> open;
};

// The network for control messages, whatever network carries the data: available everywhere.
inline constexpr const char* kControlNetwork = "Socket";
// NCCL_IB_HCA chooses the ports of this network.
inline constexpr const char* kRdmaNetwork = "IB";

// A network that may be available here.
struct NetworkChoice {
  std::string name;
  bool by_plugin_variable = false;  // NCCL_NET_PLUGIN asks for it
};
// All choices, in order of preference. Those after the control network are used only if a rank asks
// for them. A plugin's network is first; if the plugin cannot be loaded, its name is the variable's
// value. Names are compared without regard to case.
std::vector<NetworkChoice> network_choices();
bool same_network(std::string_view one, std::string_view other);
// Adds a row before all others, for a network outside the library: of a plugin or a test. Replaces
// a row of the same name. Call it before communicators are made.
void add_network(NetworkRow row);

// kInvalidUsage: no network has that name.
Result<std::unique_ptr<net::Network>> open_network(std::string_view name,
                                                   const NetworkRequest& request);

}  // namespace rondo
