// SPDX-License-Identifier: Apache-2.0
// The values of environment variables (variables.h) as numbers.
//
// Guarantees: a value that does not parse is logged once, and the default replaces it. Cost: a
// getenv and a parse. Call at initialisation and keep the value; never call in a data path.
//
//   double seconds = env::get_seconds("RONDO_TIMEOUT");
#pragma once

#include <cstdint>
#include <optional>
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

}  // namespace rondo::env
