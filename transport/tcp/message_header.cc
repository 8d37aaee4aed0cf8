#include "transport/tcp/message_header.h"

#include <algorithm>
#include <cstring>

namespace rondo::tcp {
namespace {

constexpr std::uint64_t kGrain = 4096;  // page-aligned parts, for the copies on both sides

}  // namespace

std::optional<MessageHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                          std::uint64_t number) {
  MessageHeader header;
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  if (header.magic != MessageHeader::kMagic || header.number != static_cast<std::uint32_t>(number))
    return std::nullopt;
  return header;
}

Part part_of_body(std::uint64_t bytes, int index, int sockets) {
  if (bytes < kStripedFrom || sockets == 1) return {0, index == 0 ? bytes : 0};
  const auto count = static_cast<std::uint64_t>(sockets);
  const std::uint64_t share = ((bytes + count - 1) / count + kGrain - 1) / kGrain * kGrain;
  const std::uint64_t begin = std::min(bytes, share * static_cast<std::uint64_t>(index));
  return {begin, std::min(bytes - begin, share)};
}

}  // namespace rondo::tcp
