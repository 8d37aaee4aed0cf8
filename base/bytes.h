// ByteWriter, ByteReader: plain values to and from a sequence of bytes, for messages between ranks.
//
// Both ends have the same architecture (checked when they join). The reader never reads past the
// end: once something is missing, ok() is false and every later get returns a zero value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace rondo {

class ByteWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    data_.insert(data_.end(), bytes, bytes + sizeof(T));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
  }
  void put_string(const std::string& text) { put_bytes(std::as_bytes(std::span(text))); }
  std::vector<std::byte> take() { return std::move(data_); }

 private:
  std::vector<std::byte> data_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> data) : data_(data) {}

  bool ok() const { return ok_; }
  std::size_t left() const { return data_.size(); }

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    if (!has(sizeof(T))) return value;
    std::memcpy(&value, data_.data(), sizeof(T));
    data_ = data_.subspan(sizeof(T));
    return value;
  }
  std::vector<std::byte> get_bytes() {
    const auto length = get<std::uint32_t>();
    if (!has(length)) return {};
    std::vector<std::byte> bytes(data_.begin(), data_.begin() + length);
    data_ = data_.subspan(length);
    return bytes;
  }
  std::string get_string() {
    const std::vector<std::byte> bytes = get_bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  bool has(std::size_t bytes) {
    ok_ = ok_ && data_.size() >= bytes;
    return ok_;
  }
  std::span<const std::byte> data_;
  bool ok_ = true;
};

}  // namespace rondo
