// SPDX-License-Identifier: Apache-2.0
// rondo doctor on GPUs: those that ranks of this library would use, or why there are none.
#include <fmt/core.h>
#include <unistd.h>

#include "base/env.h"
#include "base/gpu.h"
#include "bench/cli/doctor_checks.h"
#include "collectives/profiler/profiler_plugin.h"
#include "collectives/tuner/tuner_plugin.h"
#include "topology/describe.h"

namespace rondo::cli {
namespace {

constexpr const char* kSubject = "GPUs";

Finding absent(const ExamineOptions& options) {
  const std::string text = fmt::format("none, ranks use host memory: {}", gpu_absence());
  const std::string driver = options.root + "/proc/driver/nvidia/version";
  if (access(driver.c_str(), F_OK) != 0) return {Verdict::kOk, kSubject, text, ""};
  return {Verdict::kWarning, kSubject, text + "; but this machine has NVIDIA's driver",
          "use a library built with the preset cuda, and check nvidia-smi"};
}

Finding device(const GpuApi& api, int number) {
  char name[128] = "a device without a name";
  int major = 0, minor = 0;
  std::size_t free_bytes = 0, total_bytes = 0;
  api.device_name(name, sizeof(name), number);
  api.attribute(&major, GpuAttribute::kMajor, number);
  api.attribute(&minor, GpuAttribute::kMinor, number);
  std::string text = fmt::format("{}: {}, sm_{}{}", number, name, major, minor);
  if (api.set_device(number) == kGpuSuccess &&
      api.memory_info(&free_bytes, &total_bytes) == kGpuSuccess)
    text += fmt::format(", {} of {} free", topology::bytes_text(free_bytes),
                        topology::bytes_text(total_bytes));
  return {Verdict::kOk, kSubject, std::move(text), ""};
}

}  // namespace

std::vector<Finding> check_devices(const ExamineOptions& options) {
  const GpuApi* const api = gpu_api();
  if (api == nullptr) return {absent(options)};
  if (env::get_string("RONDO_DEVICE") == "host")
    return {{Verdict::kOk, kSubject, "none used: RONDO_DEVICE=host", ""}};
  std::vector<Finding> found;
  int devices = 0;
  if (api->device_count(&devices) != kGpuSuccess) devices = 0;
  for (int d = 0; d < devices; ++d) found.push_back(device(*api, d));
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < a; ++b) {
      int there = 0, back = 0;
      api->can_access_peer(&there, a, b);
      api->can_access_peer(&back, b, a);
      if (there != 0 && back != 0) continue;
      found.push_back(
          {Verdict::kWarning, kSubject,
           fmt::format("{} and {} cannot access each other's memory: data between them passes "
                       "through host memory",
                       b, a),
           "check nvidia-smi topo -m; in a virtual machine, check that P2P is passed through"});
      return found;  // one pair is enough
    }
  return found;
}

// rondo doctor on the tuner plugin: which one ranks on GPUs would use, or why they would not start.
namespace {

bool ranks_use_gpus() { return gpu_api() != nullptr && env::get_string("RONDO_DEVICE") != "host"; }

}  // namespace

std::vector<Finding> check_tuner() {
  constexpr const char* kSubject = "tuner plugin";
  const auto found = tuner::find_tuner();
  if (!found.ok())
    return {{Verdict::kProblem, kSubject, found.error().text,
             "communicators on GPUs cannot be created with it: correct NCCL_TUNER_PLUGIN, or set "
             "it to none"}};
  if (*found == nullptr) return {};
  return {{Verdict::kOk, kSubject,
           ranks_use_gpus()
               ? (*found)->text()
               : fmt::format("{} is not used: ranks use host memory", (*found)->text()),
           ""}};
}

// On the profiler plugin: which one ranks would use.
std::vector<Finding> check_profiler() {
  constexpr const char* kSubject = "profiler plugin";
  const auto found = profiler::find_profiler(ranks_use_gpus());
  if (!found.ok())
    return {{Verdict::kWarning, kSubject, found.error().text,
             "jobs run without it: correct NCCL_PROFILER_PLUGIN, or set it to none"}};
  if (*found == nullptr) return {};
  return {{Verdict::kOk, kSubject, (*found)->text(), ""}};
}

}  // namespace rondo::cli
