// SocketOfLink: what the connector of a TCP socket says in its handshake: which link, and which of
// its sockets. The decoder refuses whatever the encoder would not have written.
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

// A rank's name in the handshake: "tcp links rank 3".
std::string endpoint_of(std::string_view network, std::string_view purpose, int rank);

}  // namespace rondo::net
