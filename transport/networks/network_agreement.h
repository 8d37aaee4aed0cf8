// SPDX-License-Identifier: Apache-2.0
// Agreement of the ranks of a communicator on the network between their hosts.
//
// Each rank opens the networks that it can and sends one record to all others: the result for each
// network, and its listening addresses. Then all ranks choose by the same rule: first the network
// that NCCL_NET or netName of some rank asks for; else the plugin that NCCL_NET_PLUGIN of some rank
// asks for; else the first of rank 0's table that all ranks have. Guarantees: every rank gets the
// same network, or the same refusal (kInvalidUsage), which names a rank and the reason; no rank
// waits for a rank that chose another network. Control messages stay on TCP, whatever network
// carries the data. Cost: one all_gather, the same one that exchanges the addresses. On one host
// none, unless a network other than TCP is requested.
//
//   RONDO_TRY(const AskedNetwork asked, asked_network(names_by_rank));
//   if (needs_agreement(asked, hosts)) RONDO_TRY(auto agreed, agree_on_network(asked, request,
//   gather));
#pragma once

#include <optional>
#include <span>

#include "transport/networks/open_network.h"

namespace rondo {

// The network that a rank asks for; empty name: no rank asks.
struct AskedNetwork {
  std::string name;
  int rank = -1;
  const char* by = "NCCL_NET or netName";
};
inline constexpr std::size_t kMaxNetworkName = 64;
// kInvalidUsage: two ranks ask for different networks.
Result<AskedNetwork> asked_network(std::span<const std::string> by_rank);
bool needs_agreement(const AskedNetwork& asked, int hosts);

// The state of one network on one rank. Exactly one of `why_not` and `address` is set.
struct NetworkOffer {
  std::string name;
  std::string why_not;               // why the rank cannot use it
  std::vector<std::byte> address{};  // listening addresses of the rank
  bool by_plugin_variable = false;   // NCCL_NET_PLUGIN of the rank asks for it
  friend bool operator==(const NetworkOffer&, const NetworkOffer&) = default;
};
using NetworkOffers = std::vector<NetworkOffer>;
std::vector<std::byte> encode(const NetworkOffers& offers);
// kRemoteError: malformed bytes.
Result<NetworkOffers> decode_offers(std::span<const std::byte> bytes, int rank);
// Applies the rule to the offers of all ranks.
Result<std::string> choose_network(const AskedNetwork& asked,
                                   std::span<const NetworkOffers> by_rank);

struct AgreedNetwork {
  std::optional<Error> refusal;  // the same on all ranks; if set, ignore the rest
  std::string name;
  std::unique_ptr<net::Network> control;  // carries all lanes if `data` is null
  std::unique_ptr<net::Network> data;
  std::vector<std::vector<std::byte>> control_addresses, data_addresses;  // by rank
};
using Gather =
    std::function<Result<std::vector<std::vector<std::byte>>>(std::span<const std::byte>)>;
Result<AgreedNetwork> agree_on_network(const AskedNetwork& asked, const NetworkRequest& request,
                                       const Gather& gather);

}  // namespace rondo
