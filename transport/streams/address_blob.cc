#include "transport/streams/address_blob.h"

#include <algorithm>
#include "base/bytes.h"

namespace rondo::net {
namespace {

constexpr std::uint8_t kIp4 = 4;
constexpr std::uint8_t kIp6 = 6;

template <std::size_t N>
std::span<const unsigned char, N> octets(std::span<const std::byte> bytes) {
  return std::span<const unsigned char, N>(reinterpret_cast<const unsigned char*>(bytes.data()), N);
}

}  // namespace

std::vector<std::byte> encode_addresses(std::span<const SocketAddress> addresses) {
  ByteWriter out;
  const auto some = addresses.first(std::min(addresses.size(), kMaxAddresses));
  out.put<std::uint8_t>(static_cast<std::uint8_t>(some.size()));
  for (const SocketAddress& address : some) {
    out.put<std::uint8_t>(address.family() == AF_INET ? kIp4 : kIp6);
    out.put_raw(std::as_bytes(address.ip()));
    out.put<std::uint16_t>(address.port());
  }
  return out.take();
}

std::optional<std::vector<SocketAddress>> decode_addresses(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto count = in.get<std::uint8_t>();
  if (count == 0 || count > kMaxAddresses) return std::nullopt;
  std::vector<SocketAddress> addresses;
  for (int i = 0; i < count; ++i) {
    const auto kind = in.get<std::uint8_t>();
    if (kind != kIp4 && kind != kIp6) return std::nullopt;
    const auto ip = in.raw(kind == kIp4 ? 4 : 16);
    const auto port = in.get<std::uint16_t>();
    if (!in.ok()) return std::nullopt;
    addresses.push_back(kind == kIp4 ? SocketAddress::v4(octets<4>(ip), port)
                                     : SocketAddress::v6(octets<16>(ip), port));
  }
  return in.finished() ? std::optional(std::move(addresses)) : std::nullopt;
}

}  // namespace rondo::net
