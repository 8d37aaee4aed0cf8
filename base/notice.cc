// SPDX-License-Identifier: Apache-2.0
#include "base/notice.h"

#include <unistd.h>

#include "base/log.h"

namespace rondo {

void notice(const std::string& text) {
  RONDO_WARN("{}", text);
  if (log::wanted(log::Level::kWarn)) return;
  const std::string line = "rondo: " + text + '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace rondo
