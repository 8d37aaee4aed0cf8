// SPDX-License-Identifier: Apache-2.0
// UCX's networks for tests, if UCX is built in and installed.
#pragma once

#include <cstdlib>
#include <memory>

#include "transport/ucx/presence.h"
#ifdef RONDO_UCX
#include "transport/ucx/ucp/ucx_network.h"
#endif

namespace rondo::test {

#ifdef RONDO_UCX
// transports: the only UCX transports to use, because UCX would use shared memory within one host.
// Null: all.
inline std::unique_ptr<net::Network> open_ucx(net::PortOptions options, const char* transports) {
  if (transports != nullptr) ::setenv("UCX_TLS", transports, 1);
  auto network = ucx::UcxNetwork::open(std::move(options));
  ::unsetenv("UCX_TLS");
  return std::move(network).value();
}
#endif

}  // namespace rondo::test
