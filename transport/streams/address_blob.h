// Encodes the listening addresses of a rank for its peers: up to 16 addresses, the best first.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "transport/socket/address.h"

namespace rondo::net {

inline constexpr std::size_t kMaxAddresses = 16;

std::vector<std::byte> encode_addresses(std::span<const SocketAddress> addresses);
// Nullopt for bytes that encode_addresses() cannot have written. Never an empty list.
std::optional<std::vector<SocketAddress>> decode_addresses(std::span<const std::byte> bytes);

}  // namespace rondo::net
