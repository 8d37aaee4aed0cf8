// SPDX-License-Identifier: Apache-2.0
// NCCL variables that have no effect in Rondo, each with the reason. Many job scripts set them, so
// Rondo accepts them and reports them in `rondo env`, `rondo doctor` and the NCCL_DEBUG log.
//
// Cost: a lookup is a linear search in a table; each process reports them once.
//
//   env::report_unused();  // when a communicator is made
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace rondo::env {

struct Unused {
  std::string_view name;  // a '*' at the end matches any ending that is not in the registry
  bool asks;              // true: asks for a feature that Rondo lacks, WARN; false: a hint, INFO
  std::string_view why;
};

std::span<const Unused> unused();
const Unused* find_unused(std::string_view name);

// The known variable (in the registry or in unused()) with the smallest distance, at most `edits`
// single-character edits; empty if there is none.
std::string_view nearest(std::string_view name, std::size_t edits);
// The same among any words.
std::string_view nearest_of(std::string_view name, std::span<const std::string_view> words,
                            std::size_t edits);

// Logs, once per process: conf files that could not be read, every NCCL_* variable that is set
// (environment or conf files) and has no effect, and names that look like a typing error. Does
// nothing while the log level is below WARN.
void report_unused();

}  // namespace rondo::env
