// Endpoint: where a queue pair is, as its peer must know it to connect; LinkEnd: one end of a link,
// with all of its rails and queue pairs; PackedKey: memory that peers put into: small blobs.
//
// Guarantees: parse_*() take bytes from outside. They accept what serialize() makes and nothing
// else: every number is in its range, no byte is missing or left over.
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
  bool ethernet = true;                // RoCE: addressed by its GID; else InfiniBand: by its LID
  std::uint16_t lid = 0;               // InfiniBand: 1..0xbfff
  std::array<std::uint8_t, 16> gid{};  // RoCE: not zero
  std::uint32_t queue_pair = 0;        // its number, 24 bits, not 0
  std::uint32_t packet = 0;            // number of the first packet that it sends, 24 bits
  std::uint16_t mtu = 0;               // bytes: 256, 512, ... 4096
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

Bytes serialize(const Endpoint& endpoint);
Result<Endpoint> parse_endpoint(ByteSpan bytes);

inline constexpr std::size_t kMaxRails = 4;   // of a link
inline constexpr std::size_t kMaxPairs = 16;  // of all of them

// One end of a rail: a port and its queue pairs.
struct RailEnd {
  std::uint8_t number = 0;        // as the connector numbers it: Port::rail there
  std::uint8_t port = 0;          // of those that this end uses: finds keys of it in a PackedKey
  std::uint64_t rings = 0;        // address of the memory that the peer writes to, not 0
  std::uint32_t rings_key = 0;    // of it
  std::vector<Endpoint> pairs{};  // at least one
  friend bool operator==(const RailEnd&, const RailEnd&) = default;
};

struct LinkEnd {
  std::vector<RailEnd> rails{};  // 1..kMaxRails, of different numbers; kMaxPairs pairs in all
  friend bool operator==(const LinkEnd&, const LinkEnd&) = default;
};

Bytes serialize(const LinkEnd& end);
Result<LinkEnd> parse_link_end(ByteSpan bytes);

// Memory of a rank that peers may write, by any of its ports.
struct PackedKey {
  std::uint64_t address = 0;                    // not 0
  std::uint64_t bytes = 0;                      // not 0
  std::array<std::uint32_t, kMaxRails> keys{};  // by RailEnd::port
  friend bool operator==(const PackedKey&, const PackedKey&) = default;
};

Bytes serialize(const PackedKey& key);
Result<PackedKey> parse_packed_key(ByteSpan bytes);

// "lid 7", or the GID as an address; for messages.
std::string address_text(const Endpoint& endpoint);

}  // namespace rondo::verbs
