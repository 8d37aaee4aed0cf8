#include "transport/open_network.h"

#include "transport/tcp/tcp_network.h"

namespace rondo {
namespace {

Result<std::unique_ptr<net::Network>> open_tcp(const NetworkRequest& request) {
  auto options = tcp::NetworkOptions::from_environment(request.secret);
  options.rank = request.rank;
  options.purpose = request.purpose;
  if (request.streams > 0) options.sockets = request.streams;
  RONDO_TRY(auto network, tcp::TcpNetwork::open(std::move(options)));
  return std::unique_ptr<net::Network>(std::move(network));
}

using Open = Result<std::unique_ptr<net::Network>> (*)(const NetworkRequest& request);
// The best one first.
constexpr Open kNetworks[] = {open_tcp};

}  // namespace

Result<std::unique_ptr<net::Network>> open_network(const NetworkRequest& request) {
  return kNetworks[0](request);
}

}  // namespace rondo
