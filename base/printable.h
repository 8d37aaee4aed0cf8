// printable(): text that another process wrote, made fit for a terminal and a log.
//
// Control characters, and bytes that are not UTF-8, become \xNN (\n, \t, \r: by name): such a text
// can neither move the cursor nor pretend to be a line of ours.
//
//   facts.hostname = printable(reader.get_string());
#pragma once

#include <string>
#include <string_view>

namespace rondo {

std::string printable(std::string_view text);
// The same for texts of several lines: lines stay, and those after the first begin with a blank.
std::string printable_lines(std::string_view text);

}  // namespace rondo
