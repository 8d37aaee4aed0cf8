// SPDX-License-Identifier: Apache-2.0
// run_self_test_command(): `rondo doctor --self-test`. Starts the ranks, unless a launcher has
// started this process as one of several; rank 0 prints the page or the JSON.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rondo::cli {

struct SelfTestCommand {
  int ranks = 0;  // of this host, or of each of `hosts`; 0: one per usable core, at least 2
  double minutes = 0;
  std::vector<std::string> hosts;  // reached by the agent; empty: this host
  std::string agent = "ssh -o BatchMode=yes";
  bool strict = false, json = false;
};

// The exit status: 0, or 1 if there is a problem (strict: or a warning). An error: the options do
// not fit together.
Result<int> run_self_test_command(const SelfTestCommand& command);

}  // namespace rondo::cli
