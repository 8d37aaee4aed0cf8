// rondo doctor on the tuner plugin: which one ranks on GPUs would use, or why they would not start.
#include <fmt/core.h>

#include "api/cli/doctor_checks.h"
#include "base/env.h"
#include "base/gpu.h"
#include "collectives/tuner/tuner_plugin.h"

namespace rondo::cli {

std::vector<Finding> check_tuner() {
  constexpr const char* kSubject = "tuner plugin";
  const auto found = tuner::find_tuner();
  if (!found.ok())
    return {{Verdict::kProblem, kSubject, found.error().text,
             "communicators on GPUs cannot be created with it: correct NCCL_TUNER_PLUGIN, or set "
             "it to none"}};
  if (*found == nullptr) return {};
  const bool serves = gpu_api() != nullptr && env::get_string("RONDO_DEVICE") != "host";
  return {{Verdict::kOk, kSubject,
           serves ? (*found)->text()
                  : fmt::format("{} is not used: ranks use host memory", (*found)->text()),
           ""}};
}

}  // namespace rondo::cli
