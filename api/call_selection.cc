#include "api/call_selection.h"

#include "api/config.h"
#include "collectives/algorithm_filter.h"

namespace rondo::api {

Done apply_call_config(const Comm& comm, const ncclCollConfig_t* config, Request* request) {
  RONDO_TRY(const CallConfig options, parse_call_config(config, comm.config));
  if (options.algorithms.empty()) return done();
  RONDO_TRY(const std::uint32_t allowed, parse_algorithms(options.algorithms));
  const CallRecord& record = request->call.record;
  RONDO_TRY(const auto choice, comm.engine()->explain(record));
  if (!options.force || (allowed >> static_cast<unsigned>(choice.algorithm) & 1) != 0)
    return done();
  return fail(Status::kInvalidUsage,
              "{} would run as {}, which algSelection '{}' leaves out; NCCL_ALGO restricts a whole "
              "communicator, forceAlgSelection = 0 makes this a wish",
              to_string(record), name(choice.algorithm), options.algorithms);
}

}  // namespace rondo::api
