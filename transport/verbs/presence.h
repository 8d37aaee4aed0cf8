// SPDX-License-Identifier: Apache-2.0
// RDMA devices by libibverbs, if this process can use them. A build without the library's header
// has the same functions; they return an error that says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/nearness.h"
#include "transport/net/net.h"

namespace rondo::net {
struct PortOptions;  // transport/streams/stream_port.h
}

namespace rondo::verbs {

// The devices that libibverbs offers. A device of read_ports() that is not among them lacks a
// provider. Error: no library, an unsuitable one, or a build without it.
Result<std::vector<std::string>> offered_devices();

// Opens a VerbsNetwork by the environment variables. by_default: the user did not ask for RDMA, so
// worth_it() selects the ports. `near`: the NICs near the rank, which decide its ports.
Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& options, bool by_default,
                                                   const topology::NearNics& near);

}  // namespace rondo::verbs
