#include "transport/bootstrap/messages.h"

#include <algorithm>

#include "base/printable.h"

namespace rondo::bootstrap {
namespace {

using net::WireReader;
using net::WireWriter;

constexpr std::size_t kMostPlaces = 10;

void write(WireWriter& out, const Place& place) {
  const std::size_t count = std::min(place.addresses.size(), kMostPlaces);
  out.number<std::uint16_t>(place.port);
  out.number<std::uint8_t>(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const auto ip = place.addresses[i].ip();
    out.number<std::uint8_t>(static_cast<std::uint8_t>(ip.size()));
    out.bytes(std::as_bytes(ip));
  }
}

Place read_place(WireReader& in) {
  Place place;
  place.port = in.number<std::uint16_t>();
  const auto count = in.number<std::uint8_t>();
  if (count > kMostPlaces) in.refuse();
  for (int i = 0; i < count && in.ok(); ++i) {
    const auto length = in.number<std::uint8_t>();
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
std::optional<T> if_finished(const WireReader& in, T value) {
  if (!in.finished()) return std::nullopt;
  return value;
}

}  // namespace

Bytes Join::encode() const {
  WireWriter out;
  out.number<std::int32_t>(rank);
  out.number<std::int32_t>(size);
  out.number<std::uint64_t>(patience_ns);
  write(out, place);
  return out.take();
}

std::optional<Join> Join::decode(ByteSpan payload) {
  WireReader in(payload);
  Join join;
  join.rank = in.number<std::int32_t>();
  join.size = in.number<std::int32_t>();
  join.patience_ns = in.number<std::uint64_t>();
  join.place = read_place(in);
  return if_finished(in, join);
}

Bytes Table::encode() const {
  WireWriter out;
  write(out, parent);
  return out.take();
}

std::optional<Table> Table::decode(ByteSpan payload) {
  WireReader in(payload);
  Table table;
  table.parent = read_place(in);
  return if_finished(in, table);
}

Bytes encode_error(const Error& error) {
  WireWriter out;
  out.number<std::int32_t>(static_cast<int>(error.status));
  out.text(std::string_view(error.text).substr(0, kMostErrorText));
  return out.take();
}

std::optional<Error> decode_error(ByteSpan payload) {
  WireReader in(payload);
  const auto status = in.number<std::int32_t>();
  Error error;
  error.text = in.text();
  if (status <= 0 || status > static_cast<int>(Status::kTimeout) ||
      error.text.size() > kMostErrorText)
    return std::nullopt;
  error.status = static_cast<Status>(status);
  error.text = printable_lines(error.text);
  return if_finished(in, error);
}

void append_entry(WireWriter& out, int rank, ByteSpan bytes) {
  out.number<std::uint32_t>(static_cast<std::uint32_t>(rank));
  out.number<std::uint64_t>(bytes.size());
  out.bytes(bytes);
}

std::optional<std::vector<Entry>> decode_entries(ByteSpan payload, int size) {
  WireReader in(payload);
  std::vector<Entry> entries;
  std::vector<bool> seen(static_cast<std::size_t>(size));
  while (in.ok() && in.left() > 0) {
    const auto rank = in.number<std::uint32_t>();
    const auto length = in.number<std::uint64_t>();
    const ByteSpan bytes = in.bytes(length);
    if (!in.ok() || rank >= seen.size() || seen[rank]) return std::nullopt;
    seen[rank] = true;
    entries.push_back({static_cast<int>(rank), bytes});
  }
  return if_finished(in, std::move(entries));
}

}  // namespace rondo::bootstrap
