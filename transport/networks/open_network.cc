// SPDX-License-Identifier: Apache-2.0
#include "transport/networks/open_network.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/env.h"
#include "base/printable.h"
#include "transport/plugin/plugin_network.h"
#include "transport/tcp/tcp_network.h"
#include "transport/ucx/presence.h"
#include "transport/verbs/presence.h"

namespace rondo {
namespace {

Result<std::unique_ptr<net::Network>> open_tcp(const NetworkRequest& request) {
  auto options = tcp::NetworkOptions::from_environment(request.secret);
  options.rank = request.rank;
  options.purpose = request.purpose;
  options.addresses = request.addresses;
  if (request.streams > 0) options.sockets = request.streams;
  RONDO_TRY(auto network, tcp::TcpNetwork::open(std::move(options)));
  return std::unique_ptr<net::Network>(std::move(network));
}

Result<std::unique_ptr<net::Network>> open_verbs(const NetworkRequest& request) {
  return verbs::open_network(port_options(request), request.by_default, request.near);
}

Result<std::unique_ptr<net::Network>> open_ucx(const NetworkRequest& request) {
  return ucx::open_network(port_options(request));
}

struct Table {
  std::mutex mutex;
  std::vector<NetworkRow> rows = {
      {kRdmaNetwork, open_verbs}, {kControlNetwork, open_tcp}, {"UCX", open_ucx}};
};
Table& table() {
  static Table one;
  return one;
}

// The network of NCCL_NET_PLUGIN.
struct PluginRow {
  std::string name;
  bool asked;
  Result<const plugin::Plugin*> plugin;
};

std::optional<PluginRow> plugin_row() {
  const std::string value = env::get_string("NCCL_NET_PLUGIN");
  auto found = plugin::find(value);
  if (!found) return std::nullopt;
  if (!found->plugin.ok()) return PluginRow{printable(value), found->asked, found->plugin.error()};
  PluginRow row{(*found->plugin)->name(), found->asked, found->plugin};
  if (same_network(row.name, kControlNetwork)) {
    row.name = printable(value);
    row.plugin = fail(StatusCode::kInvalidUsage,
                      "{} has the name of Rondo's own network over TCP: use that, by "
                      "NCCL_NET_PLUGIN=none",
                      (*found->plugin)->text());
  }
  if (row.plugin.ok() || row.asked) return row;
  return std::nullopt;
}

Result<std::unique_ptr<net::Network>> open_plugin(const PluginRow& row,
                                                  const NetworkRequest& request) {
  RONDO_TRY(const plugin::Plugin* const plugin, row.plugin);
  RONDO_TRY(auto network,
            plugin::PluginNetwork::open(*plugin, port_options(request), request.near));
  return std::unique_ptr<net::Network>(std::move(network));
}

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter; }

}  // namespace

net::PortOptions port_options(const NetworkRequest& request) {
  auto options = net::PortOptions::from_environment(request.secret);
  options.rank = request.rank;
  options.purpose = request.purpose;
  options.addresses = request.addresses;
  return options;
}

bool same_network(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, lower, lower);
}

std::vector<NetworkChoice> network_choices() {
  std::vector<NetworkChoice> choices;
  if (const auto row = plugin_row()) choices.push_back({row->name, row->asked});
  std::lock_guard lock(table().mutex);
  for (const NetworkRow& row : table().rows)
    if (choices.empty() || !same_network(choices.front().name, row.name))
      choices.push_back({row.name});
  return choices;
}

void add_network(NetworkRow row) {
  std::lock_guard lock(table().mutex);
  auto& rows = table().rows;
  std::erase_if(rows, [&](const NetworkRow& one) { return same_network(one.name, row.name); });
  rows.insert(rows.begin(), std::move(row));
}

Result<std::unique_ptr<net::Network>> open_network(std::string_view name,
                                                   const NetworkRequest& request) {
  if (!same_network(name, kControlNetwork)) {
    if (const auto row = plugin_row(); row && same_network(row->name, name))
      return open_plugin(*row, request);
  }
  decltype(NetworkRow::open) open;
  {
    std::lock_guard lock(table().mutex);
    for (const NetworkRow& row : table().rows)
      if (same_network(row.name, name)) open = row.open;
  }
  if (open) return open(request);
  std::vector<std::string> names;
  for (const NetworkChoice& choice : network_choices()) names.push_back(choice.name);
  return fail(StatusCode::kInvalidUsage, "no network here has that name; available: {}",
              fmt::join(names, ", "));
}

}  // namespace rondo
