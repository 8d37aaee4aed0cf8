// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/endpoint.h"

#include <algorithm>
#include <bit>

namespace rondo::verbs {
namespace {

constexpr std::uint32_t kMagic = 0x31465156;     // "VQF1"; other builds may have another
constexpr std::uint32_t kKeyMagic = 0x314b5156;  // "VQK1"
constexpr std::uint32_t kMax24 = (1u << 24) - 1;
constexpr std::uint16_t kMaxLid = 0xbfff;  // above: multicast
constexpr std::uint16_t kLeastMtu = 256, kMaxMtu = 4096;

const char* what_is_wrong(const Endpoint& endpoint) {
  const bool no_gid = std::all_of(endpoint.gid.begin(), endpoint.gid.end(),
                                  [](std::uint8_t byte) { return byte == 0; });
  if (endpoint.ethernet && no_gid) return "no GID";
  if (endpoint.ethernet && endpoint.lid != 0) return "a LID on RoCE";
  if (!endpoint.ethernet && (endpoint.lid == 0 || endpoint.lid > kMaxLid)) return "no LID";
  if (endpoint.queue_pair == 0 || endpoint.queue_pair > kMax24) return "no queue pair";
  if (endpoint.packet > kMax24) return "a packet number of more than 24 bits";
  if (!std::has_single_bit(endpoint.mtu) || endpoint.mtu < kLeastMtu || endpoint.mtu > kMaxMtu)
    return "an MTU that does not exist";
  return nullptr;
}

}  // namespace

Bytes serialize(const Endpoint& endpoint) {
  ByteWriter out;
  out.put(kMagic);
  out.put<std::uint8_t>(endpoint.ethernet);
  out.put(endpoint.lid);
  out.put(endpoint.gid);
  out.put(endpoint.queue_pair);
  out.put(endpoint.packet);
  out.put(endpoint.mtu);
  return out.take();
}

Result<Endpoint> parse_endpoint(ByteSpan bytes) {
  ByteReader in(bytes);
  Endpoint endpoint;
  if (in.get<std::uint32_t>() != kMagic) in.refuse();
  const auto link_layer = in.get<std::uint8_t>();
  if (link_layer > 1) in.refuse();
  endpoint.ethernet = link_layer == 1;
  endpoint.lid = in.get<std::uint16_t>();
  endpoint.gid = in.get<decltype(endpoint.gid)>();
  endpoint.queue_pair = in.get<std::uint32_t>();
  endpoint.packet = in.get<std::uint32_t>();
  endpoint.mtu = in.get<std::uint16_t>();
  if (!in.finished())
    return fail(StatusCode::kRemoteError,
                "{} bytes of a peer do not describe a queue pair: all ranks must run the same "
                "build of Rondo",
                bytes.size());
  if (const char* const wrong = what_is_wrong(endpoint))
    return fail(StatusCode::kRemoteError, "a peer describes an impossible queue pair: {}", wrong);
  return endpoint;
}

Bytes serialize(const LinkEnd& end) {
  ByteWriter out;
  out.put(static_cast<std::uint8_t>(end.rails.size()));
  for (const RailEnd& rail : end.rails) {
    out.put(rail.number);
    out.put(rail.port);
    out.put(rail.rings);
    out.put(rail.rings_key);
    out.put(static_cast<std::uint8_t>(rail.pairs.size()));
    for (const Endpoint& pair : rail.pairs) out.put_raw(serialize(pair));
  }
  return out.take();
}

Result<LinkEnd> parse_link_end(ByteSpan bytes) {
  static const std::size_t each = serialize(Endpoint{}).size();
  ByteReader in(bytes);
  LinkEnd end;
  std::size_t pairs = 0;
  const auto rails = in.get<std::uint8_t>();
  if (rails < 1 || rails > kMaxRails) in.refuse();
  for (int i = 0; i < rails && in.ok(); ++i) {
    RailEnd rail;
    rail.number = in.get<std::uint8_t>();
    rail.port = in.get<std::uint8_t>();
    rail.rings = in.get<std::uint64_t>();
    rail.rings_key = in.get<std::uint32_t>();
    const auto count = in.get<std::uint8_t>();
    pairs += count;
    const bool twice = std::any_of(end.rails.begin(), end.rails.end(), [&](const RailEnd& other) {
      return other.number == rail.number;
    });
    if (rail.rings == 0 || count < 1 || pairs > kMaxPairs || twice || rail.port >= kMaxRails)
      in.refuse();
    for (int k = 0; k < count && in.ok(); ++k) {
      const ByteSpan of_pair = in.raw(each);
      if (!in.ok()) break;
      RONDO_TRY(const Endpoint pair, parse_endpoint(of_pair));
      rail.pairs.push_back(pair);
    }
    end.rails.push_back(std::move(rail));
  }
  if (!in.finished())
    return fail(StatusCode::kRemoteError,
                "{} bytes of a peer do not describe the end of a link: all ranks must run the same "
                "build of Rondo",
                bytes.size());
  return end;
}

Bytes serialize(const PackedKey& key) {
  ByteWriter out;
  out.put(kKeyMagic);
  out.put(key.address);
  out.put(key.bytes);
  out.put(key.keys);
  return out.take();
}

Result<PackedKey> parse_packed_key(ByteSpan bytes) {
  ByteReader in(bytes);
  PackedKey key;
  if (in.get<std::uint32_t>() != kKeyMagic) in.refuse();
  key.address = in.get<std::uint64_t>();
  key.bytes = in.get<std::uint64_t>();
  key.keys = in.get<decltype(key.keys)>();
  if (key.address == 0 || key.bytes == 0 || key.address + key.bytes < key.address) in.refuse();
  if (!in.finished())
    return fail(
        StatusCode::kRemoteError,
        "{} bytes of a peer do not describe memory: all ranks must run the same build of Rondo",
        bytes.size());
  return key;
}

}  // namespace rondo::verbs
