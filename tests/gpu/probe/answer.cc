// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace probe {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += print("\\u%04x", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number(double value) { return std::isfinite(value) ? print("%.6g", value) : "null"; }

void report(std::string line) {
  line += '\n';
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t written = write(STDOUT_FILENO, line.data() + at, line.size() - at);
    if (written <= 0) return;
    at += static_cast<std::size_t>(written);
  }
}

}  // namespace

std::string print(const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

void put(const std::string& name, double value, const char* unit) {
  report("{\"put\": " + quoted(name) + ", \"value\": " + number(value) +
         ", \"unit\": " + quoted(unit) + "}");
}
void put(const std::string& name, const std::string& value) {
  report("{\"put\": " + quoted(name) + ", \"value\": " + quoted(value) + "}");
}
void answer(const std::string& sentence) { report("{\"answer\": " + quoted(sentence) + "}"); }
void check(const char* assumption, bool holds, const std::string& seen) {
  report("{\"check\": " + quoted(assumption) + ", \"holds\": " + (holds ? "true" : "false") +
         ", \"seen\": " + quoted(seen) + "}");
}

void give_up(const std::string& why) {
  report("{\"error\": " + quoted(why) + "}");
  _exit(kGaveUp);
}
void unsupported(const std::string& why) {
  report("{\"error\": " + quoted(why) + "}");
  _exit(kUnsupported);
}

}  // namespace probe
