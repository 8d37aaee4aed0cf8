// SPDX-License-Identifier: Apache-2.0
// The values of environment variables (variables.h) as numbers.
//
// Guarantees: a value that does not parse is logged once, and the default replaces it. Cost: a
// getenv and a parse. Call at initialisation and keep the value; never call in a data path.
//
//   double seconds = env::get_seconds("RONDO_TIMEOUT");
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/variables.h"

namespace rondo::env {

// The value, or the default if it is unset or does not parse. A parse error is logged once, with
// the value, the accepted form, and the default.
std::int64_t get_int(std::string_view name);  // kInt, kBytes (suffixes K, M, G: powers of 1024)
bool get_bool(std::string_view name);         // 0/1, true/false, yes/no, on/off
double get_double(std::string_view name);     // fractions allowed; never NaN
double get_seconds(std::string_view name);    // above 0, fractions allowed; capped at one year

// "4M", "4MiB", "4 mb" -> 4194304, "1.5k" -> 1536. Suffixes K, M, G and T are powers of 1024, as
// nccl-tests reads them. nullopt if the text is no such size or no whole number of bytes.
std::optional<std::int64_t> parse_bytes(std::string_view text);

// NCCL variables that have no effect in Rondo, each with the reason. Many job scripts set them, so
// Rondo accepts them and reports them in `rondo env`, `rondo doctor` and the NCCL_DEBUG log.
//
// Cost: a lookup is a linear search in a table; each process reports them once.
//
//   env::report_unused();  // when a communicator is made
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
