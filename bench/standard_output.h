// SPDX-License-Identifier: Apache-2.0
// What a command does about standard output that cannot be written; colours of what it prints.
//
//   int main() {
//     open_standard_streams();
//     return with_standard_output("rondo env", [] { return print_all(); });
//   }
//
// Guarantees: if the reader has gone (rondo env | head -1), the command ends with 141 and prints
// nothing, as programs do that SIGPIPE ends. After any other error (a full disk, a closed stdout)
// it prints one line on stderr and ends with 1. Both happen at the first text that is not written,
// by an exception of fmt::print(), so that destructors end what the command has started. SIGPIPE is
// ignored. Costs: stdout has no buffer, so each fmt::print() is a system call.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo {

inline constexpr int kReaderGone = 141;  // 128 + SIGPIPE
inline constexpr int kOutputLost = 1;

// To be called before other files are opened: the numbers 0 to 2 of closed streams are taken by
// /dev/null, so that no file of the program gets what is printed. Writing to a closed stdout still
// fails.
void open_standard_streams();

// Runs the command and flushes. Returns its status, or one of those above. `program` begins the
// line about the error.
int with_standard_output(std::string_view program, const std::function<int()>& command);

// write_output(); but where `path` means standard output, an error is that of standard output: it
// throws, as fmt::print() does.
Status write_result(const std::string& path, const std::string& text);

// "rondo bench: TEXT" on stderr. An error of stderr has nowhere to be printed: it is ignored, where
// fmt::print() throws.
void print_error(std::string_view program, std::string_view text);

// The exception of fmt::print().
[[noreturn]] void throw_output_lost(int error);

}  // namespace rondo

namespace rondo::cli {

// Colours of what commands print for people: red needs action, yellow may need it, green is fine.
//
// Guarantees: without a terminal, in TERM=dumb, or where NO_COLOR has a value (no-color.org), the
// text stays as it is. Columns are the caller's: pad the text first.
//
//   const bool colours = shows_colours();
//   fmt::print("{}\n", coloured(blame.text, Colour::kRed, colours));
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
