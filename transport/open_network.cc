#include "transport/open_network.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "transport/tcp/tcp_network.h"
#include "transport/verbs/presence.h"

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

Result<std::unique_ptr<net::Network>> open_verbs(const NetworkRequest& request) {
  return verbs::open_network(request.secret, request.rank, request.purpose, request.by_default);
}

struct Table {
  std::mutex mutex;
  std::vector<NetworkRow> rows = {{"IB", open_verbs}, {kControlNetwork, open_tcp}};
};
Table& table() {
  static Table one;
  return one;
}

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter; }

}  // namespace

bool same_network(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, lower, lower);
}

std::vector<std::string> network_names() {
  std::lock_guard lock(table().mutex);
  std::vector<std::string> names;
  for (const NetworkRow& row : table().rows) names.push_back(row.name);
  return names;
}

void add_network(NetworkRow row) {
  std::lock_guard lock(table().mutex);
  auto& rows = table().rows;
  std::erase_if(rows, [&](const NetworkRow& one) { return same_network(one.name, row.name); });
  rows.insert(rows.begin(), std::move(row));
}

Result<std::unique_ptr<net::Network>> open_network(std::string_view name,
                                                   const NetworkRequest& request) {
  decltype(NetworkRow::open) open;
  {
    std::lock_guard lock(table().mutex);
    for (const NetworkRow& row : table().rows)
      if (same_network(row.name, name)) open = row.open;
  }
  if (open) return open(request);
  return fail(Status::kInvalidUsage, "this build has no network of that name; it has {}",
              fmt::join(network_names(), ", "));
}

}  // namespace rondo
