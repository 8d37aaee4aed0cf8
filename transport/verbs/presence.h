// Whether this process can use RDMA devices by libibverbs. The same in a build without the
// library's header, whose answer is that it was one.
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

// The devices that libibverbs offers; those of read_ports() that it does not have lack a provider.
// An error says why there are none of any kind: no library, an unsuited one, a build without it.
Result<std::vector<std::string>> offered_devices();

// VerbsNetwork by the environment's variables. by_default: nobody asks for it, so that ports of the
// kernel's own software do not count. `near`: by which the rank takes its ports.
Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& options, bool by_default,
                                                   const topology::NearNics& near);

}  // namespace rondo::verbs
