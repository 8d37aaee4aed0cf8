// Whether this process can use UCX. The same in a build without its headers, whose answer is that
// it was one.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/net/net.h"

namespace rondo::net {
struct PortOptions;  // transport/streams/stream_port.h
}

namespace rondo::ucx {

// The library's version, as it says it. An error says why there is none: no library, an unsuited
// one, a build without it.
Result<std::string> library_version();

// UcxNetwork by the environment's variables.
Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& options);

}  // namespace rondo::ucx
