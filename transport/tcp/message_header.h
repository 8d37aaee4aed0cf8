// The header of a message on a TCP link, and how a message is divided over the link's sockets.
//
// Socket 0 carries every header (32 bytes, little-endian as all hosts of a communicator are) and
// the first part of every body; the others carry their parts of large bodies, without headers: the
// division follows from the size. Each socket keeps the order of messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"

namespace rondo::tcp {

struct MessageHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t bytes = 0;   // of the body
  std::uint32_t number = 0;  // its low bits
  std::uint32_t tag = 0;
  CallRecord record;

  static constexpr std::uint32_t kMagic = 0x6c736f52;
};
static_assert(sizeof(MessageHeader) == 32);
inline constexpr std::size_t kHeaderBytes = sizeof(MessageHeader);

// Nothing unless these are a header of message `number`.
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
