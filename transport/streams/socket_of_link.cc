#include "transport/streams/socket_of_link.h"

#include <fmt/format.h>

namespace rondo::net {

Bytes encode(const SocketOfLink& socket) {
  ByteWriter out;
  out.put<std::uint32_t>(static_cast<std::uint32_t>(socket.name.from));
  out.put<std::uint32_t>(static_cast<std::uint32_t>(socket.name.to));
  out.put<std::uint32_t>(static_cast<std::uint32_t>(socket.name.lane));
  out.put<std::uint16_t>(socket.index);
  out.put<std::uint16_t>(socket.count);
  out.put<std::uint64_t>(socket.link_id);
  return out.take();
}

std::optional<SocketOfLink> decode_socket(ByteSpan bytes) {
  ByteReader in(bytes);
  SocketOfLink socket;
  socket.name.from = static_cast<std::int32_t>(in.get<std::uint32_t>());
  socket.name.to = static_cast<std::int32_t>(in.get<std::uint32_t>());
  socket.name.lane = static_cast<std::int32_t>(in.get<std::uint32_t>());
  socket.index = in.get<std::uint16_t>();
  socket.count = in.get<std::uint16_t>();
  socket.link_id = in.get<std::uint64_t>();
  const bool sound = in.finished() && socket.name.from >= 0 && socket.name.to >= 0 &&
                     socket.name.lane >= 0 && socket.name.lane < kMaxLanes && socket.count >= 1 &&
                     socket.count <= kMaxSockets && socket.index < socket.count;
  return sound ? std::optional(socket) : std::nullopt;
}

std::string endpoint_of(std::string_view network, std::string_view purpose, int rank) {
  return fmt::format("{} {} rank {}", network, purpose, rank);
}

}  // namespace rondo::net
