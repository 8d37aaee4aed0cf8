// SPDX-License-Identifier: Apache-2.0
// Pickle: writes a value in Python's pickle format, protocol 2: dicts, lists, strings, integers,
// floats, booleans, None. The caller opens and closes containers, and gives a dict keys and values
// in turn.
//
//   Pickle out;
//   out.dict().text("version").text("2.10").end_dict();
//   const std::string bytes = std::move(out).finish();
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace rondo::trace {

class Pickle {
 public:
  Pickle& dict() { return put("}("); }
  Pickle& end_dict() { return put("u"); }
  Pickle& list() { return put("]("); }
  Pickle& end_list() { return put("e"); }
  Pickle& none() { return put("N"); }
  Pickle& boolean(bool value) { return put(value ? "\x88" : "\x89"); }
  Pickle& text(std::string_view value) {
    put("X");
    little_endian(static_cast<std::uint32_t>(value.size()), 4);
    return put(value);
  }
  Pickle& integer(std::int64_t value) {  // LONG1 of 8 bytes
    put("\x8a\x08");
    return little_endian(static_cast<std::uint64_t>(value), 8);
  }
  Pickle& real(double value) {  // big-endian
    put("G");
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int i = 7; i >= 0; --i) bytes_ += static_cast<char>(bits >> (8 * i) & 0xff);
    return *this;
  }
  std::string finish() && { return std::move(put(".").bytes_); }

 private:
  Pickle& put(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  Pickle& little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }

  std::string bytes_ = "\x80\x02";
};

}  // namespace rondo::trace
