// SPDX-License-Identifier: Apache-2.0
// `rondo doctor --self-test`: the command, what a self-test (bench/self_test.h) has found, and the
// page that shows it.
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

#include "base/result.h"
#include "bench/cli/doctor_checks.h"
#include "bench/self_test.h"

namespace rondo::cli {

struct SelfTestCommand {
  int ranks = 0;  // of this host, or of each of `hosts`; 0: one per usable core, at least 2
  double minutes = 0;
  bool quick = false;              // one type of data
  std::vector<std::string> hosts;  // reached by the agent; empty: this host
  std::string agent = "ssh -o BatchMode=yes";
  bool strict = false, json = false;
};

// Starts the ranks, unless a launcher has started this process as one of several; rank 0 prints the
// page or the JSON. The exit status: 0, or 1 if there is a problem (strict: or a warning). An
// error: the options do not fit together.
Result<int> run_self_test_command(const SelfTestCommand& command);

// Problems first.
std::vector<Finding> findings_of(const bench::SelfTestResult& result);

// Findings of a host, to be sent to other ranks and read there. Unreadable text gives none.
std::string packed(const std::vector<Finding>& findings);
std::vector<Finding> unpacked(const std::string& text);

const char* name_of(Verdict verdict);
// Two lines where there is a remedy. colours: of the verdicts (bench/standard_output.h).
std::string line_of(const Finding& finding, bool colours = false);

// Hosts, findings, algorithms and, of few ranks, the rates of all links.
std::string page_of(const bench::SelfTestResult& result, const std::vector<Finding>& findings,
                    bool colours = false);
// docs/reference/schemas/self-test.schema.json
std::string json_of(const bench::SelfTestResult& result, const std::vector<Finding>& findings);

}  // namespace rondo::cli
