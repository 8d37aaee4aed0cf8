// Runs one probe in a process of its own, under a limit, and collects what it said.
//
// Guarantees: returns soon after the limit, whatever the probe does; it and all processes that it
// made are then dead, or said to be unkillable. The caller must not have used CUDA.
#pragma once

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "questions.h"

namespace probe {

using Json = nlohmann::ordered_json;

struct Outcome {
  std::string status;  // ok, failed, hung, unsupported
  std::string reason;  // why not ok
  double seconds = 0;
  std::string answer;
  Json values = Json::object();
  Json judged = Json::object();  // assumption -> {holds, seen}
};

// `stop`: ends it early, as failed, once it is not 0.
Outcome run_question(const Question& question, double limit, const volatile sig_atomic_t& stop);

}  // namespace probe
