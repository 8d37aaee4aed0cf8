#include "transport/open_network.h"

#include <string_view>

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

struct Row {
  std::string_view name;  // as NCCL_NET and Network::name() have it
  Result<std::unique_ptr<net::Network>> (*open)(const NetworkRequest& request);
};
// The best one first.
constexpr Row kNetworks[] = {{"Socket", open_tcp}};

}  // namespace

Result<std::unique_ptr<net::Network>> open_network(const NetworkRequest& request) {
  return kNetworks[0].open(request);
}

}  // namespace rondo
