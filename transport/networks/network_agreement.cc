// SPDX-License-Identifier: Apache-2.0
#include "transport/networks/network_agreement.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/log.h"
#include "base/printable.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxOffers = 16;
constexpr std::size_t kMaxReason = 512;
constexpr std::size_t kMaxAddress = 4096;

const NetworkOffer* find(const NetworkOffers& offers, const std::string& name) {
  const auto it = std::find_if(offers.begin(), offers.end(), [&](const NetworkOffer& one) {
    return same_network(one.name, name);
  });
  return it == offers.end() ? nullptr : &*it;
}

// The networks that this rank has opened, and its offers for them.
struct Opened {
  NetworkOffers offers;
  // By offer. Null: not usable, or the control network.
  std::vector<std::unique_ptr<net::Network>> networks;

  void add(const NetworkChoice& choice, Result<std::unique_ptr<net::Network>> network) {
    NetworkOffer offer{choice.name, {}, {}, choice.by_plugin_variable};
    offer.name.resize(std::min(offer.name.size(), kMaxNetworkName));
    std::unique_ptr<net::Network> usable;
    if (network.ok()) {
      auto address = (*network)->listen();
      if (address.ok()) {
        offer.address = std::move(address).value();
        usable = std::move(network).value();
      } else {
        offer.why_not = address.error().text;
      }
    } else {
      offer.why_not = network.error().text;
    }
    if (!offer.why_not.empty())
      RONDO_INFO(kNet, "network {} cannot be used here: {}", printable(choice.name), offer.why_not);
    offer.why_not.resize(std::min(offer.why_not.size(), kMaxReason));
    offers.push_back(std::move(offer));
    networks.push_back(std::move(usable));
  }
};

std::vector<std::vector<std::byte>> addresses_of(const std::string& name,
                                                 std::span<const NetworkOffers> by_rank) {
  std::vector<std::vector<std::byte>> addresses;
  for (const NetworkOffers& offers : by_rank) {
    const NetworkOffer* const offer = find(offers, name);
    addresses.push_back(offer != nullptr ? offer->address : std::vector<std::byte>());
  }
  return addresses;
}

Error disagreement(const AskedNetwork& one, std::size_t rank, const std::string& other) {
  return fail(StatusCode::kInvalidUsage,
              "rank {} asks for network '{}', rank {} for '{}' ({}): give all ranks the same",
              one.rank, printable(one.name), rank, printable(other), one.by);
}

Error lack(const AskedNetwork& asked, std::size_t rank, const std::string& why) {
  return fail(StatusCode::kInvalidUsage,
              "network '{}', which rank {} asks for ({}), cannot be used on rank {}: {}",
              printable(asked.name), asked.rank, asked.by, rank, printable(why));
}

// The network that NCCL_NET_PLUGIN asks for. A plugin that cannot be loaded or used is refused
// before names are compared, because its network's name is unknown.
Result<AskedNetwork> asked_plugin(std::span<const NetworkOffers> by_rank) {
  AskedNetwork asked;
  std::optional<Error> refusal;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    for (const NetworkOffer& offer : by_rank[r]) {
      if (!offer.by_plugin_variable) continue;
      if (!offer.why_not.empty())
        return lack({offer.name, static_cast<int>(r), "NCCL_NET_PLUGIN"}, r, offer.why_not);
      if (asked.name.empty()) asked = {offer.name, static_cast<int>(r), "NCCL_NET_PLUGIN"};
      if (!refusal && !same_network(asked.name, offer.name))
        refusal = disagreement(asked, r, offer.name);
    }
  }
  if (refusal) return *refusal;
  return asked;
}

}  // namespace

Result<AskedNetwork> asked_network(std::span<const std::string> by_rank) {
  AskedNetwork asked;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r].empty()) continue;
    if (asked.name.empty()) asked = {by_rank[r], static_cast<int>(r)};
    if (!same_network(asked.name, by_rank[r])) return disagreement(asked, r, by_rank[r]);
  }
  return asked;
}

bool needs_agreement(const AskedNetwork& asked, int hosts) {
  return hosts > 1 || !(asked.name.empty() || same_network(asked.name, kControlNetwork));
}

std::vector<std::byte> encode(const NetworkOffers& offers) {
  ByteWriter out;
  out.put(static_cast<std::uint8_t>(offers.size()));
  for (const NetworkOffer& offer : offers) {
    out.put_string(offer.name);
    out.put_string(offer.why_not);
    out.put_bytes(offer.address);
    out.put(static_cast<std::uint8_t>(offer.by_plugin_variable ? 1 : 0));
  }
  return out.take();
}

Result<NetworkOffers> decode_offers(std::span<const std::byte> bytes, int rank) {
  ByteReader in(bytes);
  NetworkOffers offers;
  const auto count = in.get<std::uint8_t>();
  if (count > kMaxOffers) in.refuse();
  for (int i = 0; i < count && in.ok(); ++i) {
    NetworkOffer offer;
    offer.name = in.get_string();
    offer.why_not = in.get_string();
    offer.address = in.get_bytes();
    const auto flag = in.get<std::uint8_t>();
    offer.by_plugin_variable = flag != 0;
    if (flag > 1 || offer.name.empty() || offer.name.size() > kMaxNetworkName ||
        offer.why_not.size() > kMaxReason || offer.address.size() > kMaxAddress ||
        offer.why_not.empty() == offer.address.empty())
      in.refuse();
    offers.push_back(std::move(offer));
  }
  if (!in.finished())
    return fail(StatusCode::kRemoteError, "rank {} sent a list of networks that cannot be read",
                rank);
  return offers;
}

Result<std::string> choose_network(const AskedNetwork& by_name,
                                   std::span<const NetworkOffers> by_rank) {
  AskedNetwork asked = by_name;
  if (asked.name.empty()) {
    RONDO_TRY(asked, asked_plugin(by_rank));
  }
  if (!asked.name.empty()) {
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
      const NetworkOffer* const offer = find(by_rank[r], asked.name);
      if (offer == nullptr) return lack(asked, r, "it has none of that name");
      if (!offer->why_not.empty()) return lack(asked, r, offer->why_not);
    }
    return find(by_rank[0], asked.name)->name;
  }
  for (const NetworkOffer& offer : by_rank[0]) {
    const bool common = std::all_of(by_rank.begin(), by_rank.end(), [&](const auto& offers) {
      const NetworkOffer* const theirs = find(offers, offer.name);
      return theirs != nullptr && theirs->why_not.empty();
    });
    if (common) return offer.name;
  }
  return fail(StatusCode::kInternalError,
              "the ranks have no network in common");  // every rank has TCP
}

Result<AgreedNetwork> agree_on_network(const AskedNetwork& asked, const NetworkRequest& request,
                                       const Gather& gather) {
  AgreedNetwork agreed;
  Opened opened;
  std::vector<NetworkChoice> choices;
  if (asked.name.empty()) {
    choices = network_choices();
  } else {
    choices.push_back({asked.name});
  }
  if (std::none_of(choices.begin(), choices.end(),
                   [](const auto& one) { return same_network(one.name, kControlNetwork); }))
    choices.push_back({kControlNetwork});
  NetworkRequest wanted = request;
  wanted.by_default = asked.name.empty();
  for (const NetworkChoice& choice : choices) {
    if (!same_network(choice.name, kControlNetwork)) {
      opened.add(choice, open_network(choice.name, wanted));
      continue;
    }
    // Nothing works without the control network, so a failure is an error of this rank. All ranks
    // receive it.
    RONDO_TRY(agreed.control, open_network(choice.name, request));
    RONDO_TRY(auto address, agreed.control->listen());
    opened.offers.push_back({choice.name, {}, std::move(address)});
    opened.networks.emplace_back();
    if (asked.name.empty()) break;  // every rank has it; the rows after it are used only on request
  }
  RONDO_TRY(const auto gathered, gather(encode(opened.offers)));
  std::vector<NetworkOffers> by_rank;
  for (std::size_t r = 0; r < gathered.size(); ++r) {
    RONDO_TRY(NetworkOffers offers, decode_offers(gathered[r], static_cast<int>(r)));
    by_rank.push_back(std::move(offers));
  }
  auto chosen = choose_network(asked, by_rank);
  if (!chosen.ok()) {
    agreed.refusal = chosen.error();
    return agreed;
  }
  agreed.name = std::move(chosen).value();
  agreed.control_addresses = addresses_of(kControlNetwork, by_rank);
  for (std::size_t i = 0; i < opened.offers.size(); ++i)
    if (same_network(opened.offers[i].name, agreed.name))
      agreed.data = std::move(opened.networks[i]);
  if (agreed.data) agreed.data_addresses = addresses_of(agreed.name, by_rank);
  return agreed;
}

}  // namespace rondo
