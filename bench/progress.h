// SPDX-License-Identifier: Apache-2.0
// Progress: a line on a terminal that says how much of a long command is done, and what runs now.
//
// Each line replaces the one before; clear() removes it before other output. Without a file nothing
// is printed: pass on_terminal(stderr), which is null where standard error is no terminal.
//
//   Progress progress(on_terminal(stderr), 17);
//   progress.show(3, "4096 B");  // "# 3 of 17; now 4096 B"
//   progress.clear();
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace rondo::bench {

inline std::FILE* on_terminal(std::FILE* file) {
  return isatty(fileno(file)) == 1 ? file : nullptr;
}

class Progress {
 public:
  explicit Progress(std::FILE* to, std::size_t total = 0) : to_(to), total_(total) {}
  void expect(std::size_t total) { total_ = total; }  // 0: unknown

  void show(std::size_t done, std::string_view now) const {
    if (to_ == nullptr) return;
    const std::string of = total_ == 0 ? "" : fmt::format(" of {}", total_);
    fmt::print(to_, "\r\033[K# {}{}; now {}", done, of, now);
    std::fflush(to_);
  }
  void clear() const {
    if (to_ == nullptr) return;
    fmt::print(to_, "\r\033[K");
    std::fflush(to_);
  }

 private:
  std::FILE* to_;
  std::size_t total_;
};

}  // namespace rondo::bench
