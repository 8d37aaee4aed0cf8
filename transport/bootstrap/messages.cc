// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/messages.h"

#include <algorithm>
#include <cstring>

#include "base/printable.h"
#include "transport/auth/hmac.h"

namespace rondo::bootstrap {
namespace {

constexpr std::size_t kMaxPlaces = 10;

void write(ByteWriter& out, const Endpoint& place) {
  const std::size_t count = std::min(place.addresses.size(), kMaxPlaces);
  out.put<std::uint16_t>(place.port);
  out.put<std::uint8_t>(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const auto ip = place.addresses[i].ip();
    out.put<std::uint8_t>(static_cast<std::uint8_t>(ip.size()));
    out.put_raw(std::as_bytes(ip));
  }
}

Endpoint read_place(ByteReader& in) {
  Endpoint place;
  place.port = in.get<std::uint16_t>();
  const auto count = in.get<std::uint8_t>();
  if (count > kMaxPlaces) in.refuse();
  for (int i = 0; i < count && in.ok(); ++i) {
    const auto length = in.get<std::uint8_t>();
    std::array<unsigned char, 16> ip{};
    if (length != 4 && length != 16) in.refuse();
    in.fill(std::as_writable_bytes(std::span(ip).first(length == 4 ? 4 : 16)));
    place.addresses.push_back(
        length == 4
            ? net::SocketAddress::v4(std::span<const unsigned char, 4>(ip.data(), 4), place.port)
            : net::SocketAddress::v6(ip, place.port));
  }
  return place;
}

template <class T>
std::optional<T> if_finished(const ByteReader& in, T value) {
  if (!in.finished()) return std::nullopt;
  return value;
}

}  // namespace

std::uint64_t digest_of(std::span<const int> members) {
  const auth::Digest whole = auth::sha256({std::as_bytes(members)});
  std::uint64_t digest = 0;
  std::memcpy(&digest, whole.data(), sizeof(digest));
  return digest | 1;
}

Bytes Join::encode() const {
  ByteWriter out;
  out.put<std::int32_t>(rank);
  out.put<std::int32_t>(size);
  out.put<std::uint64_t>(timeout_ns);
  write(out, place);
  out.put<std::uint64_t>(members);
  out.put_string(std::string_view(claim).substr(0, kMaxClaim));
  return out.take();
}

std::optional<Join> Join::decode(ByteSpan payload) {
  ByteReader in(payload);
  Join join;
  join.rank = in.get<std::int32_t>();
  join.size = in.get<std::int32_t>();
  join.timeout_ns = in.get<std::uint64_t>();
  join.place = read_place(in);
  join.members = in.get<std::uint64_t>();
  join.claim = printable(in.get_string());
  if (join.claim.size() > kMaxClaim) in.refuse();
  return if_finished(in, join);
}

Bytes Table::encode() const {
  ByteWriter out;
  write(out, parent);
  return out.take();
}

std::optional<Table> Table::decode(ByteSpan payload) {
  ByteReader in(payload);
  Table table;
  table.parent = read_place(in);
  return if_finished(in, table);
}

Bytes Roll::encode() const {
  const std::size_t count = std::min(absent.size(), kMaxAbsent);
  ByteWriter out;
  out.put<std::int32_t>(joined);
  out.put<std::uint8_t>(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.put<std::int32_t>(absent[i]);
  return out.take();
}

std::optional<Roll> Roll::decode(ByteSpan payload, int size) {
  ByteReader in(payload);
  Roll roll;
  roll.joined = in.get<std::int32_t>();
  const auto count = in.get<std::uint8_t>();
  if (count > kMaxAbsent || roll.joined < 0 || roll.joined > size) in.refuse();
  for (int i = 0; i < count && in.ok(); ++i) {
    const auto rank = in.get<std::int32_t>();
    if (rank < 0 || rank >= size) in.refuse();
    roll.absent.push_back(rank);
  }
  return if_finished(in, std::move(roll));
}

Bytes Ended::encode() const {
  ByteWriter out;
  out.put<std::int32_t>(member);
  return out.take();
}

std::optional<Ended> Ended::decode(ByteSpan payload) {
  ByteReader in(payload);
  return if_finished(in, Ended{in.get<std::int32_t>()});
}

Bytes encode_error(const Error& error) {
  ByteWriter out;
  out.put<std::int32_t>(static_cast<int>(error.code));
  out.put_string(std::string_view(error.text).substr(0, kMaxErrorText));
  return out.take();
}

std::optional<Error> decode_error(ByteSpan payload) {
  ByteReader in(payload);
  const auto status = in.get<std::int32_t>();
  Error error;
  error.text = in.get_string();
  if (status <= 0 || status > static_cast<int>(StatusCode::kTimeout) ||
      error.text.size() > kMaxErrorText)
    return std::nullopt;
  error.code = static_cast<StatusCode>(status);
  error.text = printable_lines(error.text);
  return if_finished(in, error);
}

void append_entry(ByteWriter& out, int rank, ByteSpan bytes) {
  out.put<std::uint32_t>(static_cast<std::uint32_t>(rank));
  out.put<std::uint64_t>(bytes.size());
  out.put_raw(bytes);
}

std::optional<std::vector<Entry>> decode_entries(ByteSpan payload, int size) {
  ByteReader in(payload);
  std::vector<Entry> entries;
  std::vector<bool> seen(static_cast<std::size_t>(size));
  while (in.ok() && in.left() > 0) {
    const auto rank = in.get<std::uint32_t>();
    const auto length = in.get<std::uint64_t>();
    const ByteSpan bytes = in.raw(length);
    if (!in.ok() || rank >= seen.size() || seen[rank]) return std::nullopt;
    seen[rank] = true;
    entries.push_back({static_cast<int>(rank), bytes});
  }
  return if_finished(in, std::move(entries));
}

}  // namespace rondo::bootstrap
