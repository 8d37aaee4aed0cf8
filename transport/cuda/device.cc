// SPDX-License-Identifier: Apache-2.0
#include "transport/cuda/device.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

std::string bus_id_of(int device) {
  char text[32] = "";
  if (gpu_api()->pci_bus_id(text, sizeof(text), device) != kGpuSuccess) return "";
  return topology::normal_bus_id(text);
}

std::string device_name_of(int device) {
  char text[256] = "";
  return gpu_api()->device_name(text, sizeof(text), device) == kGpuSuccess ? text : "";
}

namespace {

// State of this thread's scopes. device: the current one, if known; outside: the one before the
// outermost scope; any: the innermost scope has no device.
constexpr int kUnknown = -1;
struct Entered {
  bool inside = false, any = false;
  int device = kUnknown, outside = kUnknown;
};
thread_local Entered entered_here;
// A new thread has device 0, but no context before its first runtime call, so driver calls would
// fail.
thread_local bool has_made_current = false;
thread_local bool keeps_device = false;  // keep_device_of_thread()

Status ask_what_is_current() {
  Entered& here = entered_here;
  if (here.device != kUnknown) return ok_status();
  RONDO_CHECK_OK(check(gpu_api()->get_device(&here.device), "cudaGetDevice"));
  here.outside = here.device;
  return ok_status();
}

// Errors after which a process can use its GPU no longer.
bool loses_gpu(GpuError error) {
  constexpr GpuError kAll[] = {kGpuUnavailable,    kGpuEccUncorrectable, kGpuNvLinkUncorrectable,
                               kGpuIllegalAddress, kGpuLaunchFailure,    kGpuUnknownError};
  return std::find(std::begin(kAll), std::end(kAll), error) != std::end(kAll);
}

std::string remedy_for(GpuError error) {
  if (error == kGpuOutOfMemory) return "; free device memory, or use fewer ranks";
  if (!loses_gpu(error)) return "";
  const Entered& here = entered_here;
  const std::string gpu =
      here.inside && here.device != kUnknown ? bus_id_of(here.device) : std::string();
  return fmt::format(
      "; the process has lost GPU{}{}: dmesg says why in a line of NVRM, by an Xid (79: it left "
      "the bus; 48, 63, 94, 95: its memory; 74: NVLink; 13, 31: a kernel of the program): restart "
      "the job, after a fault of the hardware without that GPU",
      gpu.empty() ? "" : " ", gpu);
}

}  // namespace

Status check(GpuError error, const char* what) {
  if (error == kGpuSuccess) return ok_status();
  const GpuApi& api = *gpu_api();
  return fail(StatusCode::kUnhandledCudaError, "CUDA failure: {} ({}) in {}{}",
              api.error_text(error), api.error_name(error), what, remedy_for(error));
}

DeviceScope::DeviceScope()
    : outermost_(!entered_here.inside), in_any_(entered_here.any), before_(entered_here.device) {
  entered_here.inside = entered_here.any = true;
}

DeviceScope::DeviceScope(int device) : DeviceScope() {
  entered_here.any = false;
  entered_ = ask_what_is_current();
  if (!entered_.ok() || (has_made_current && entered_here.device == device)) return;
  entered_ = check(gpu_api()->set_device(device), "cudaSetDevice");
  if (!entered_.ok()) return;
  entered_here.device = device;
  has_made_current = true;
}

DeviceScope::~DeviceScope() {
  Entered& here = entered_here;
  here.any = in_any_;
  if (in_any_ && !outermost_) return;
  const int back = outermost_ ? here.outside : before_;
  const bool restores = !outermost_ || !keeps_device;
  if (restores && back != kUnknown && here.device != back) gpu_api()->set_device(back);
  here.device = back;
  if (outermost_) here = {};
}

void DeviceScope::keep_device_of_thread() { keeps_device = true; }

bool DeviceScope::is_in(int device) { return entered_here.inside && entered_here.device == device; }
bool DeviceScope::has_context() { return has_made_current; }

bool blocking_launches() {
  static const bool blocking = [] {
    const char* const set = std::getenv("CUDA_LAUNCH_BLOCKING");
    return set != nullptr && std::atoi(set) != 0;
  }();
  return blocking;
}

namespace {

// Once a process. CUDA shows no device for a list that it cannot use; who hides all means it.
void warn_of_bad_list() {
  const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!gpus_are_hidden() || list == nullptr) return;
  for (const std::string_view meant : {"", "-1", "none", "NoDevFiles", "void"})
    if (list == meant) return;
  [[maybe_unused]] static const bool warned = [list] {
    RONDO_WARN(
        "CUDA_VISIBLE_DEVICES is '{}', which shows this process no GPU: its ranks use host memory. "
        "List existing GPUs, each once, by number or UUID (nvidia-smi -L); or set "
        "RONDO_DEVICE=host on all ranks",
        printable(list));
    return true;
  }();
}

}  // namespace

Result<int> device_for_new_rank() {
  const std::string wanted = env::get_string("RONDO_DEVICE");
  if (wanted == "host") return kHostRank;
  if (!wanted.empty())
    return fail(StatusCode::kInvalidUsage, "RONDO_DEVICE is '{}': use host, or leave it unset",
                wanted);
  const GpuApi* api = gpu_api();
  if (api == nullptr) {
    warn_of_bad_list();
    return kHostRank;
  }
  int device = kHostRank;
  RONDO_CHECK_OK(check(api->get_device(&device), "cudaGetDevice"));
  return device;
}

}  // namespace rondo::gpu
