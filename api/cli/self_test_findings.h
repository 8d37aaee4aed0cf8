// SPDX-License-Identifier: Apache-2.0
// findings_of(): what a self-test (bench/self_test.h) has found, with remedies.
//
// Wrong data and calls that fail are problems. A link is slow, which is a problem, if it has less
// than half of the rate that a quarter of its kind reaches (in hosts, between hosts), or less than
// a quarter of what the network's ports promise. Below half of the ports' rate, or a quarter of
// what the cost model expects, is a warning, because the model was fitted on another machine; and
// so is a slow link in a host whose cores are shared. If all links of a rank are slow, the finding
// names the rank.
#pragma once

#include <string>
#include <vector>

#include "api/cli/doctor_checks.h"
#include "bench/self_test.h"

namespace rondo::cli {

// Problems first.
std::vector<Finding> findings_of(const bench::SelfTestResult& result);

// Findings of a host, to be sent to other ranks and read there. Unreadable text gives none.
std::string packed(const std::vector<Finding>& findings);
std::vector<Finding> unpacked(const std::string& text);

}  // namespace rondo::cli
