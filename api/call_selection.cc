#include "api/call_selection.h"

#include "api/config.h"
#include "collectives/planner/algorithm_filter.h"

namespace rondo::api {
namespace {

CallLimits limits_of(const CallConfig& options) {
  CallLimits limits;
  const auto ctas = [](int value) { return value == NCCL_CONFIG_UNDEF_INT ? 0 : value; };
  limits.min_ctas = ctas(options.min_ctas);
  limits.max_ctas = ctas(options.max_ctas);
  if (options.cta_policy != NCCL_CONFIG_UNDEF_INT)
    limits.mover = (options.cta_policy & NCCL_CTA_POLICY_ZERO) != 0
                       ? CallLimits::Mover::kCopyEngines
                       : CallLimits::Mover::kKernels;
  return limits;
}

}  // namespace

Status apply_call_config(const Comm& comm, const ncclCollConfig_t* config, Request* request) {
  RONDO_TRY(const CallConfig options, parse_call_config(config, comm.config));
  request->call.limits = limits_of(options);
  if (options.algorithms.empty()) return ok_status();
  CallRecord& record = request->call.record;
  RONDO_TRY(record.flags, excluded_by(options.algorithms, record.collective));
  if (comm.engine()->predicted_ns(record) > 0) return ok_status();
  record.flags = 0;
  if (!options.force) return ok_status();
  return fail(StatusCode::kInvalidUsage,
              "algSelection '{}' leaves no algorithm that can run {} on this communicator; with "
              "forceAlgSelection = 0 it is only a hint",
              options.algorithms, to_string(record));
}

}  // namespace rondo::api
