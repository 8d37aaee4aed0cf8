// SocketOfLink: the handshake payload of a TCP socket's connector: the link, and the socket's index
// in it. The decoder refuses bytes that the encoder would not write.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/auth/handshake.h"
#include "transport/net/net.h"

namespace rondo::net {

inline constexpr int kMaxSockets = 16;

struct SocketOfLink {
  LinkName name;
  std::uint16_t index = 0;  // of this socket in its link
  std::uint16_t count = 1;
  std::uint64_t link_id = 0;  // the same for all sockets of one attempt to make a link
};
Bytes encode(const SocketOfLink& socket);
std::optional<SocketOfLink> decode_socket(ByteSpan bytes);

// The name of a rank in the handshake: "tcp links rank 3".
std::string endpoint_of(std::string_view network, std::string_view purpose, int rank);

}  // namespace rondo::net
