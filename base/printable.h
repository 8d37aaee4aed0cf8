// SPDX-License-Identifier: Apache-2.0
// Texts for users: foreign text that is safe to print, and counts.
//
//   facts.hostname = printable(reader.get_string());
//   counted(3, "rank")  // "3 ranks"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// Makes text from another process safe for a terminal and a log: control characters, and bytes that
// are not UTF-8, become \xNN (\n, \t, \r: by name). Such a text can neither move the cursor nor
// imitate a log line of Rondo.
std::string printable(std::string_view text);
// The same for text of several lines. Line ends stay; later non-empty lines begin with a space.
std::string printable_lines(std::string_view text);

// "1 rank", "2 ranks", "0 processes". one: a noun whose plural ends in s, or in es after s.
std::string counted(std::uint64_t count, std::string_view one);

}  // namespace rondo
