// SPDX-License-Identifier: Apache-2.0
// The parts of `rondo report`: results as HTML with pictures inside, from JSON documents of rondo
// bench, rondo doctor --self-test, bench/compare.sh and rondo trace --chrome.
//
// Guarantees: the page refers to nothing outside itself; texts of files are escaped. Without
// gnuplot, tables appear without pictures, and the section says what to install.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace rondo::cli {

// The section of one file. kInvalidArgument if the document is none of these results.
Result<std::string> section_of(const Json& document, const std::string& file);

std::string html_page(const std::string& title, const std::string& sections);
std::string escaped(const std::string& text);  // for HTML

}  // namespace rondo::cli
