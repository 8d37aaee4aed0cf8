// The header of a message on a TCP link, and the division of a message over the link's sockets.
//
// Socket 0 carries every header (32 bytes, little-endian like all hosts of a communicator) and the
// first part of every body. The other sockets carry their parts of large bodies without headers:
// the size determines the division. Each socket keeps the order of messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"

namespace rondo::tcp {

struct MessageHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t bytes = 0;   // size of the body
  std::uint32_t number = 0;  // low 32 bits of the message number
  std::uint32_t tag = 0;
  CallRecord record;

  static constexpr std::uint32_t kMagic = 0x6c736f52;
};
static_assert(sizeof(MessageHeader) == 32);
inline constexpr std::size_t kHeaderBytes = sizeof(MessageHeader);

// Nullopt unless the bytes are the header of message `number`.
std::optional<MessageHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                          std::uint64_t number);

inline constexpr std::uint64_t kStripedFrom = 64 << 10;

struct Part {
  std::uint64_t begin;
  std::uint64_t bytes;
};
// The part of a body of `bytes` that socket `index` of `sockets` carries.
Part part_of_body(std::uint64_t bytes, int index, int sockets);

}  // namespace rondo::tcp
