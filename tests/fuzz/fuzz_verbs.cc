// SPDX-License-Identifier: Apache-2.0
// Any bytes as a peer's queue pair, link end and memory key, and any text as NCCL_IB_HCA: accepted
// values are in range and encode to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "transport/verbs/devices.h"
#include "transport/verbs/endpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto endpoint = verbs::parse_endpoint(bytes); endpoint.ok()) {
    const auto again = verbs::serialize(*endpoint);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
    if (endpoint->queue_pair == 0 || endpoint->queue_pair >> 24 != 0) std::abort();
    if (endpoint->packet >> 24 != 0 || endpoint->mtu < 256 || endpoint->mtu > 4096) std::abort();
    if (endpoint->ethernet == (endpoint->lid != 0)) std::abort();
    (void)verbs::address_text(*endpoint);
  }
  if (const auto end = verbs::parse_link_end(bytes); end.ok()) {
    const auto again = verbs::serialize(*end);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
    if (end->rails.empty() || end->rails.size() > verbs::kMaxRails) std::abort();
    std::size_t pairs = 0;
    for (const verbs::RailEnd& rail : end->rails) {
      if (rail.rings == 0 || rail.pairs.empty() || rail.port >= verbs::kMaxRails) std::abort();
      pairs += rail.pairs.size();
    }
    if (pairs > verbs::kMaxPairs) std::abort();
  }
  if (const auto key = verbs::parse_packed_key(bytes); key.ok()) {
    const auto again = verbs::serialize(*key);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
    if (key->address == 0 || key->bytes == 0 || key->address + key->bytes < key->address)
      std::abort();
  }
  static const std::vector<verbs::Port> ports = [] {
    verbs::Port port{.device = "mlx5_0", .active = true, .state = "ACTIVE"};
    port.gids.push_back({});
    std::vector<verbs::Port> all(3, port);
    all[1].number = 2;
    all[2].device = "rxe0";
    return all;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto chosen = verbs::choose_ports(ports, text); chosen.ok()) {
    if (chosen->empty() || chosen->size() > ports.size()) std::abort();
  }
  return 0;
}
