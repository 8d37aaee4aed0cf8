// SPDX-License-Identifier: Apache-2.0
// Any text as a tune file: it is refused, with its name and a line, or gives usable rates that
// survive writing and reading.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "collectives/planner/tune_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_tune_file(text, "fuzzed");
  if (!parsed.ok()) {
    if (!parsed.error().text.starts_with("fuzzed: line ")) std::abort();
    return 0;
  }
  HostCosts costs;
  costs.ns = parsed->ns;
  if (!costs.plausible() || !parsed->device.plausible() ||
      parsed->gpu.find('\n') != std::string::npos || parsed->cpu.find('\n') != std::string::npos)
    std::abort();
  const auto again = parse_tune_file(format_tune_file(*parsed), "written");
  if (!again.ok() || again->cpu != parsed->cpu || again->graph != parsed->graph ||
      again->gpu != parsed->gpu || again->device.measured != parsed->device.measured)
    std::abort();
  return 0;
}
