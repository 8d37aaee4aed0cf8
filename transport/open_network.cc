#include "transport/open_network.h"

#include <strings.h>

#include "base/env.h"
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
  const char* name;  // as NCCL_NET has it
  Result<std::unique_ptr<net::Network>> (*open)(const NetworkRequest& request);
};
// The first one where NCCL_NET names none of them.
constexpr Row kNetworks[] = {{"Socket", open_tcp}};

const Row& chosen() {
  const std::string wanted = env::get_string("NCCL_NET");
  for (const Row& row : kNetworks)
    if (strcasecmp(row.name, wanted.c_str()) == 0) return row;
  return kNetworks[0];
}

}  // namespace

const char* network_name() { return chosen().name; }

Result<std::unique_ptr<net::Network>> open_network(const NetworkRequest& request) {
  return chosen().open(request);
}

}  // namespace rondo
