// How the ranks of a communicator agree on the network between their hosts.
//
// Each rank opens what it can and tells all others in one record what came of it, and where it
// listens; then all choose the same by the same rule: the network that NCCL_NET or netName of some
// rank asks for; else the plugin that NCCL_NET_PLUGIN of some rank asks for; else the first of rank
// 0's table that all have. Guarantees: every rank gets the
// same network or the same refusal (kInvalidUsage), which names a rank and the reason; nobody waits
// for a rank that chose otherwise. Control messages stay on TCP whatever carries the data. Cost:
// one gathering of all ranks, the one by which they learn each other's addresses anyway; none on
// one host, unless a network other than TCP is asked for there.
//
//   RONDO_TRY(const AskedNetwork asked, asked_network(names_by_rank));
//   if (needs_agreement(asked, hosts)) RONDO_TRY(auto agreed, agree_on_network(asked, request,
//   gather));
#pragma once

#include <optional>
#include <span>

#include "transport/open_network.h"

namespace rondo {

// What some rank asks for; no name: none does.
struct AskedNetwork {
  std::string name;
  int rank = -1;
  const char* by = "NCCL_NET or netName";
};
inline constexpr std::size_t kMaxNetworkName = 64;
// kInvalidUsage: two ranks ask for different ones.
Result<AskedNetwork> asked_network(std::span<const std::string> by_rank);
bool needs_agreement(const AskedNetwork& asked, int hosts);

// What a rank says of one network.
struct NetworkOffer {
  std::string name;
  std::string why_not;               // it cannot be used there; else
  std::vector<std::byte> address{};  // where the rank listens
  bool by_plugin_variable = false;   // NCCL_NET_PLUGIN asks for it there
  friend bool operator==(const NetworkOffer&, const NetworkOffer&) = default;
};
using NetworkOffers = std::vector<NetworkOffer>;
std::vector<std::byte> encode(const NetworkOffers& offers);
// kRemoteError: no rank says that.
Result<NetworkOffers> decode_offers(std::span<const std::byte> bytes, int rank);
// The rule, of what all ranks said.
Result<std::string> choose_network(const AskedNetwork& asked,
                                   std::span<const NetworkOffers> by_rank);

struct AgreedNetwork {
  std::optional<Error> refusal;  // the same on all ranks; else
  std::string name;
  std::unique_ptr<net::Network> control;  // of all lanes, where there is no
  std::unique_ptr<net::Network> data;
  std::vector<std::vector<std::byte>> control_addresses, data_addresses;  // by rank
};
using Gather =
    std::function<Result<std::vector<std::vector<std::byte>>>(std::span<const std::byte>)>;
Result<AgreedNetwork> agree_on_network(const AskedNetwork& asked, const NetworkRequest& request,
                                       const Gather& gather);

}  // namespace rondo
