// ByteWriter, ByteReader: numbers, texts and bytes to and from a sequence of bytes, for messages
// between ranks, tickets and blobs.
//
//   ByteWriter out;  out.put<std::uint32_t>(7);  out.put_string(name);  send(out.take());
//   ByteReader in(payload);  auto n = in.get<std::uint32_t>();  if (!in.finished()) refuse();
//
// Guarantees: numbers are little-endian. The reader never reads past the end: once something is
// missing, ok() is false and everything later reads as zero, or as empty. Structs travel as they
// lie in memory, so only between ranks of the same build (checked when they join).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace rondo {

static_assert(std::endian::native == std::endian::little,
              "put() and get() copy numbers as they lie");

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

class ByteWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { put_raw(std::as_bytes(std::span(&value, 1))); }
  // As they are: the reader must know how many.
  void put_raw(ByteSpan bytes) { data_.insert(data_.end(), bytes.begin(), bytes.end()); }
  // After their number.
  void put_bytes(ByteSpan bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    put_raw(bytes);
  }
  void put_string(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }
  const Bytes& written() const { return data_; }
  Bytes take() { return std::move(data_); }

 private:
  Bytes data_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteSpan data) : rest_(data) {}

  bool ok() const { return ok_; }
  bool finished() const { return ok_ && rest_.empty(); }
  std::size_t left() const { return rest_.size(); }
  // What was read so far makes no sense: ok() is false from now on.
  void refuse() { ok_ = false; }

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    fill(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  ByteSpan raw(std::size_t count) {
    ok_ = ok_ && count <= rest_.size();
    if (!ok_) return {};
    const ByteSpan taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  // Leaves `into` alone past the end.
  void fill(std::span<std::byte> into) {
    const ByteSpan from = raw(into.size());
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
  }
  Bytes get_bytes() {
    const ByteSpan from = raw(get<std::uint32_t>());
    return {from.begin(), from.end()};
  }
  std::string get_string() {
    const ByteSpan from = raw(get<std::uint32_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }

 private:
  ByteSpan rest_;
  bool ok_ = true;
};

}  // namespace rondo
