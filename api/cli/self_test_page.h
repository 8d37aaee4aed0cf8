// SPDX-License-Identifier: Apache-2.0
// Findings and a self-test's results as lines, one page, and JSON.
#pragma once

#include <string>
#include <vector>

#include "api/cli/doctor_checks.h"
#include "bench/self_test.h"

namespace rondo::cli {

const char* name_of(Verdict verdict);
std::string line_of(const Finding& finding);  // two lines where there is a remedy

// Hosts, findings, algorithms and, of few ranks, the rates of all links.
std::string page_of(const bench::SelfTestResult& result, const std::vector<Finding>& findings);
// docs/reference/schemas/self-test.schema.json
std::string json_of(const bench::SelfTestResult& result, const std::vector<Finding>& findings);

}  // namespace rondo::cli
