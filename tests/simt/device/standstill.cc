// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/standstill.h"

#include <fmt/core.h>

namespace rondo::simt {
namespace {

constexpr std::size_t kMaxOfAQueue = 24;  // max. commands listed per queue

std::string name_of(const Command& command) {
  return fmt::format("#{} {} (stream {})", command.number, command.what, command.stream);
}

}  // namespace

std::string standstill_text(const std::vector<std::deque<CommandRef>>& queued, int queues) {
  std::string text;
  for (std::size_t q = 0; q < queued.size(); ++q) {
    if (queued[q].empty()) continue;
    text += fmt::format("  device {}, queue {}:\n", q / static_cast<std::size_t>(queues),
                        q % static_cast<std::size_t>(queues));
    std::size_t named = 0;
    for (const CommandRef& command : queued[q]) {
      if (++named > kMaxOfAQueue) {
        text += fmt::format("    and {} more\n", queued[q].size() - kMaxOfAQueue);
        break;
      }
      text += "    " + name_of(*command);
      const char* joined = ", behind ";
      for (const CommandRef& before : command->after) {
        if (before->over) continue;
        text += joined + name_of(*before);
        joined = " and ";
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace rondo::simt
