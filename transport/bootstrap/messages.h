// The messages of the bootstrap and their bytes. Everything here comes from the network: decoding
// checks every bound and gives nothing for bytes that it would not have written itself.
//
//   visitor -> door: Hello      who I am to be compared with, which rendezvous, my nonce
//   door -> visitor: Challenge  the same of the door, its nonce, proof that it knows the secret
//   visitor -> door: Join       rank, size, where I listen, proof that I know the secret
//   then: Table, Connected, Error (at the rendezvous); Gather, Result, Error (in the tree)
// The start of Hello and Challenge (dialect and tag) stays the same in all protocol versions, so
// that ranks which differ can say so.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/auth/hmac.h"
#include "transport/socket/address.h"
#include "transport/socket/wire.h"

namespace rondo::bootstrap {

using auth::Digest;
using net::Bytes;
using net::ByteSpan;

enum Message : std::uint16_t {
  kHello = 1,
  kChallenge = 2,
  kJoin = 3,
  kTable = 4,
  kConnected = 5,
  kError = 6,
  kGather = 7,
  kResult = 8,
};

// Raised with every change of a message or of what ranks share in memory.
inline constexpr std::uint16_t kProtocolVersion = 1;
// No message of the handshake is longer.
inline constexpr std::size_t kMostHandshakeBytes = 512;
inline constexpr std::size_t kMostErrorText = 4096;
inline constexpr int kMostRanks = 1 << 20;

// What must be the same for all ranks.
struct Dialect {
  std::uint16_t protocol = kProtocolVersion;
  std::uint8_t endianness = 1;  // 1 little, 2 big
  std::uint8_t pointer_bytes = sizeof(void*);
  static Dialect of_this_build();
  std::string text() const;  // "protocol 1, little-endian, 64 bits"
  friend bool operator==(const Dialect&, const Dialect&) = default;
};

using Tag = std::array<std::byte, 16>;  // names a rendezvous without giving its secret away

struct Hello {
  Dialect dialect;
  Tag tag{};
  Digest nonce{};
  Bytes encode() const;
  static std::optional<Hello> decode(ByteSpan payload);
};

inline constexpr std::int32_t kServer = -1;
struct Challenge {
  Dialect dialect;
  std::int32_t door = kServer;  // the rank behind the door; kServer: the rendezvous
  Digest nonce{};
  Digest proof{};
  Bytes encode_unproven() const;  // everything but the proof: what proofs cover
  Bytes encode() const;
  static std::optional<Challenge> decode(ByteSpan payload);
};

// Where a rank waits for its children of the tree.
struct Place {
  std::uint16_t port = 0;  // 0: it has no children
  std::vector<net::SocketAddress> addresses;
};

struct Join {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t patience_ns = 0;  // how long this rank goes on waiting
  Place place;
  Digest proof{};
  Bytes encode_unproven() const;
  Bytes encode() const;
  static std::optional<Join> decode(ByteSpan payload);
};

struct Table {
  Place parent;  // port 0 at rank 0
  Bytes encode() const;
  static std::optional<Table> decode(ByteSpan payload);
};

Bytes encode_error(const Error& error);
std::optional<Error> decode_error(ByteSpan payload);

// What Gather and Result carry: any number of (rank, bytes).
struct Entry {
  int rank = 0;
  ByteSpan bytes;  // within the payload
};
void append_entry(net::WireWriter& out, int rank, ByteSpan bytes);
std::optional<std::vector<Entry>> decode_entries(ByteSpan payload, int size);

}  // namespace rondo::bootstrap
