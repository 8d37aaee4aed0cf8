// SPDX-License-Identifier: Apache-2.0
// printable(): makes text from another process safe for a terminal and a log.
//
// Control characters, and bytes that are not UTF-8, become \xNN (\n, \t, \r: by name). Such a text
// can neither move the cursor nor imitate a log line of Rondo.
//
//   facts.hostname = printable(reader.get_string());
#pragma once

#include <string>
#include <string_view>

namespace rondo {

std::string printable(std::string_view text);
// The same for text of several lines. Line ends stay; later non-empty lines begin with a space.
std::string printable_lines(std::string_view text);

}  // namespace rondo
