// SPDX-License-Identifier: Apache-2.0
// Small blobs that ranks exchange. Endpoint: the address of a queue pair, which its peer needs to
// connect; LinkEnd: one end of a link, with all of its rails and queue pairs; PackedKey: memory
// that peers put into.
//
// Guarantees: the input of parse_*() can be any bytes. They accept only what serialize() makes:
// every number is in its range, no byte is missing or left over.
//
//   send(serialize(pair.endpoint()));
//   RONDO_TRY(const Endpoint peer, parse_endpoint(received));
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace rondo::verbs {

struct Endpoint {
  bool ethernet = true;                // RoCE, addressed by GID; false: InfiniBand, by LID
  std::uint16_t lid = 0;               // InfiniBand: 1..0xbfff
  std::array<std::uint8_t, 16> gid{};  // RoCE: not zero
  std::uint32_t queue_pair = 0;        // its number, 24 bits, not 0
  std::uint32_t packet = 0;            // number of its first sent packet, 24 bits
  std::uint16_t mtu = 0;               // bytes: 256, 512, ... 4096
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

Bytes serialize(const Endpoint& endpoint);
Result<Endpoint> parse_endpoint(ByteSpan bytes);

inline constexpr std::size_t kMaxRails = 4;   // per link
inline constexpr std::size_t kMaxPairs = 16;  // per link, over all rails

// One end of a rail: a port and its queue pairs.
struct RailEnd {
  std::uint8_t number = 0;        // the connector's number: its Port::rail
  std::uint8_t port = 0;          // index of this end's port; indexes PackedKey::keys
  std::uint64_t rings = 0;        // address of the memory that the peer writes to, not 0
  std::uint32_t rings_key = 0;    // remote key of that memory
  std::vector<Endpoint> pairs{};  // at least one
  friend bool operator==(const RailEnd&, const RailEnd&) = default;
};

struct LinkEnd {
  std::vector<RailEnd> rails{};  // 1..kMaxRails, with distinct numbers; at most kMaxPairs pairs
  friend bool operator==(const LinkEnd&, const LinkEnd&) = default;
};

Bytes serialize(const LinkEnd& end);
Result<LinkEnd> parse_link_end(ByteSpan bytes);

// Memory of a rank that peers can write, through any of its ports.
struct PackedKey {
  std::uint64_t address = 0;                    // not 0
  std::uint64_t bytes = 0;                      // not 0
  std::array<std::uint32_t, kMaxRails> keys{};  // index: RailEnd::port
  friend bool operator==(const PackedKey&, const PackedKey&) = default;
};

Bytes serialize(const PackedKey& key);
Result<PackedKey> parse_packed_key(ByteSpan bytes);

}  // namespace rondo::verbs
