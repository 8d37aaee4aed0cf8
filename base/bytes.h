// SPDX-License-Identifier: Apache-2.0
// ByteWriter, ByteReader: write and read numbers, strings and bytes as a sequence of bytes, for
// messages between ranks, tickets and blobs.
//
//   ByteWriter out;  out.put<std::uint32_t>(7);  out.put_string(name);  send(out.take());
//   ByteReader in(payload);  auto n = in.get<std::uint32_t>();  if (!in.finished()) refuse();
//
// Guarantees: numbers are little-endian. The reader never reads past the end: after the first read
// that finds too few bytes, ok() is false and all later reads return zero or empty values. Structs
// are copied with their memory layout, so both ranks must run the same build (checked when they
// join).
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
  // Without a length: the reader must know it.
  void put_raw(ByteSpan bytes) { data_.insert(data_.end(), bytes.begin(), bytes.end()); }
  // With a 32-bit length before them.
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
  // Marks the data as invalid: ok() is false from now on.
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
  // Leaves `into` unchanged if too few bytes are left.
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
