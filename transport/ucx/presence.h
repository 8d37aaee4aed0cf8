// SPDX-License-Identifier: Apache-2.0
// UCX, if this process can use it. A build without its headers has the same functions; they return
// an error that says so.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/net/net.h"

namespace rondo::net {
struct PortOptions;  // transport/streams/stream_port.h
}

namespace rondo::ucx {

// The library's version. Error: no library, an unsuitable one, or a build without it.
Result<std::string> library_version();

// Opens a UcxNetwork by the environment variables.
Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& options);

}  // namespace rondo::ucx
