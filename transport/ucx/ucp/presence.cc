#include "transport/ucx/presence.h"

#include "transport/ucx/ucp/ucx_network.h"

namespace rondo::ucx {

Result<std::string> library_version() {
  RONDO_TRY(const UcpLibrary* const ucp, UcpLibrary::load());
  return ucp->version();
}

Result<std::unique_ptr<net::Network>> open_network(const std::array<std::byte, 32>& secret,
                                                   int rank, const std::string& purpose) {
  auto options = net::PortOptions::from_environment(secret);
  options.rank = rank;
  options.purpose = purpose;
  RONDO_TRY(auto network, UcxNetwork::open(std::move(options)));
  return std::unique_ptr<net::Network>(std::move(network));
}

}  // namespace rondo::ucx
