// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/presence.h"

#include "transport/ucx/ucp/ucx_network.h"

namespace rondo::ucx {

Result<std::string> library_version() {
  RONDO_TRY(const UcpLibrary* const ucp, UcpLibrary::load());
  return ucp->version();
}

Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& options) {
  RONDO_TRY(auto network, UcxNetwork::open(options));
  return std::unique_ptr<net::Network>(std::move(network));
}

}  // namespace rondo::ucx
