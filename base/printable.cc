// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace rondo {
namespace {

// Length in bytes of the first UTF-8 character; 0: not valid UTF-8, or a control character.
std::size_t shown_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf5   ? 0
                             : first >= 0xf0 ? 4
                             : first >= 0xe0 ? 3
                             : first >= 0xc2 ? 2
                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xc2 && byte(1) < 0xa0) return 0;   // 8-bit (C1) control characters
  if (first == 0xe0 && byte(1) < 0xa0) return 0;   // overlong encoding
  if (first == 0xed && byte(1) >= 0xa0) return 0;  // UTF-16 surrogate
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

std::string escape(unsigned char byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\x{:02x}", byte);
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = shown_bytes(text);
    if (length == 0)
      shown += escape(static_cast<unsigned char>(text[0]));
    else
      shown += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  for (bool first = true;; first = false) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = printable(text.substr(0, end));
    if (!first && !line.empty() && !line.starts_with(' ')) shown += ' ';
    shown += line;
    if (end == text.size()) return shown;
    shown += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string counted(std::uint64_t count, std::string_view one) {
  const char* const plural = count == 1 ? "" : one.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", count, one, plural);
}

}  // namespace rondo
