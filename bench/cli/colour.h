// SPDX-License-Identifier: Apache-2.0
// Colours of what commands print for people: red needs action, yellow may need it, green is fine.
//
// Guarantees: without a terminal, in TERM=dumb, or where NO_COLOR has a value (no-color.org), the
// text stays as it is. Columns are the caller's: pad the text first.
//
//   const bool colours = shows_colours();
//   fmt::print("{}\n", coloured(blame.text, Colour::kRed, colours));
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace rondo::cli {

enum class Colour { kRed = 31, kGreen = 32, kYellow = 33 };  // codes of terminals

// On standard output.
inline bool shows_colours() {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  return isatty(STDOUT_FILENO) == 1 && value_of("NO_COLOR").empty() && value_of("TERM") != "dumb";
}

inline std::string coloured(std::string_view text, Colour colour, bool shown) {
  if (!shown) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(colour), text);
}

}  // namespace rondo::cli
