// Numbers and bytes of a network message: little-endian, bounds checked.
//
//   WireWriter out;  out.number<std::uint32_t>(7);  out.bytes(span);  send(out.take());
//   WireReader in(payload);  auto n = in.number<std::uint32_t>();  if (!in.finished()) refuse();
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rondo::net {

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

class WireWriter {
 public:
  template <class Number>
  void number(std::type_identity_t<Number> value) {
    for (std::size_t i = 0; i < sizeof(Number); ++i)
      out_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  void bytes(ByteSpan span) { out_.insert(out_.end(), span.begin(), span.end()); }
  void text(std::string_view text) {
    number<std::uint32_t>(static_cast<std::uint32_t>(text.size()));
    bytes(std::as_bytes(std::span(text)));
  }
  Bytes take() { return std::move(out_); }
  const Bytes& written() const { return out_; }

 private:
  Bytes out_;
};

// After the first read past the end everything reads as zero and ok() is false.
class WireReader {
 public:
  explicit WireReader(ByteSpan bytes) : rest_(bytes) {}

  template <class Number>
  Number number() {
    std::uint64_t value = 0;
    const ByteSpan from = bytes(sizeof(Number));
    for (std::size_t i = 0; i < from.size(); ++i)
      value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
    return static_cast<Number>(value);
  }
  ByteSpan bytes(std::size_t count) {
    if (count > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const ByteSpan taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  // Copies to an array; leaves it alone past the end.
  void fill(std::span<std::byte> into) {
    const ByteSpan from = bytes(into.size());
    for (std::size_t i = 0; i < from.size(); ++i) into[i] = from[i];
  }
  std::string text() {
    const ByteSpan from = bytes(number<std::uint32_t>());
    return std::string(reinterpret_cast<const char*>(from.data()), from.size());
  }
  void refuse() { ok_ = false; }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  ByteSpan rest_;
  bool ok_ = true;
};

}  // namespace rondo::net
