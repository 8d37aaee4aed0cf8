#include "api/options.h"

#include <algorithm>
#include <cstring>

#include "api/arguments.h"
#include "base/env.h"
#include "base/seconds.h"
#include "transport/cuda/device.h"

namespace rondo::api {
namespace {

Status set_seconds(double seconds, const char* field, double* into) {
  if (seconds == RONDO_UNDEF_SECONDS) return ok_status();
  RONDO_CHECK_OK(seconds_above_zero(seconds, "rondoCommOptions_t", field));
  *into = std::min(seconds, kMaxSeconds);
  return ok_status();
}

}  // namespace

Result<CommOptions> make_options(const CommConfig& config, const rondoCommOptions_t* user) {
  CommOptions result = CommOptions::from_environment();
  result.name = config.comm_name;
  result.network = config.net_name;
  RONDO_TRY(result.device, gpu::device_for_new_rank());
  result.min_ctas = config.fields.minCTAs;
  result.max_ctas = config.fields.maxCTAs;
  result.copy_engines = (config.fields.CTAPolicy & NCCL_CTA_POLICY_ZERO) != 0;
  // A kernel may wait for a rank that still prepares its data, so it has a limit only on request.
  if (env::raw("RONDO_TIMEOUT")) result.kernel_seconds = result.timeout_seconds;
  if (user == nullptr) return result;
  if (user->magic != RONDO_OPTIONS_MAGIC || user->size < offsetof(rondoCommOptions_t, device))
    return fail(StatusCode::kInvalidArgument,
                "rondoCommOptions_t argument not initialized via RONDO_COMM_OPTIONS_INITIALIZER");
  rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
  std::memcpy(&options, user, std::min(user->size, sizeof(options)));
  switch (options.device) {
    case RONDO_UNDEF_INT:
    case rondoDeviceAuto:
      break;
    case rondoDeviceHost:
      result.device = gpu::kHostRank;
      break;
    case rondoDeviceCuda:
      if (result.device != gpu::kHostRank) break;
      return fail(StatusCode::kInvalidUsage,
                  "rondoDeviceCuda was requested, but {}; use rondoDeviceHost",
                  gpu_api() == nullptr ? gpu_absence() : "RONDO_DEVICE=host is set");
    default:
      return fail(StatusCode::kInvalidArgument, "rondoCommOptions_t: invalid device {}",
                  options.device);
  }
  if (options.reproducible != RONDO_UNDEF_INT) {
    if (options.reproducible != 0 && options.reproducible != 1)
      return fail(StatusCode::kInvalidArgument,
                  "rondoCommOptions_t: reproducible = {} is not 0 or 1", options.reproducible);
    result.reproducible = options.reproducible == 1;
  }
  RONDO_CHECK_OK(set_seconds(options.timeout, "timeout", &result.timeout_seconds));
  if (options.timeout != RONDO_UNDEF_SECONDS) result.kernel_seconds = result.timeout_seconds;
  RONDO_CHECK_OK(set_seconds(options.initTimeout, "initTimeout", &result.init_timeout_seconds));
  return result;
}

}  // namespace rondo::api
