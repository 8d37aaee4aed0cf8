// SPDX-License-Identifier: Apache-2.0
// Runs one probe in its own process, with a time limit, and collects its output.
//
// Guarantees: returns soon after the limit, whatever the probe does; the probe and all its
// processes are then dead, or reported as unkillable. The caller must not have used CUDA.
#pragma once

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "questions.h"

namespace probe {

using Json = nlohmann::ordered_json;

struct Outcome {
  std::string status;  // ok, failed, hung, unsupported
  std::string reason;  // why the status is not ok
  double seconds = 0;
  std::string answer;
  Json values = Json::object();
  Json checked = Json::object();  // assumption -> {holds, seen}
};

// `stop`: if not 0, ends the probe early, as failed.
Outcome run_question(const Question& question, double limit, const volatile sig_atomic_t& stop);

}  // namespace probe
