// SPDX-License-Identifier: Apache-2.0
// A build without CUDA has no GPU engine: base/gpu_none.cc puts every rank on the host, so nothing
// is bound, tuned or enqueued.
#include "collectives/gpu/rank/entry_points.h"

namespace rondo::gpu {

Status bind_to_device(const BindingRequest& request) {
  if (request.state.options.device < 0) return ok_status();
  return fail(StatusCode::kInternalError, "rank {} is on CUDA device {} in a build without CUDA",
              request.state.members.rank, request.state.options.device);
}

Result<std::string> agree_on_tuning(RankState&, bootstrap::Session&, const tuner::TunerPlugin&) {
  return std::string();
}

Status enqueue_together(std::span<RankWork> works) {
  if (works.empty()) return ok_status();
  return fail(StatusCode::kInternalError, "a call on a CUDA device in a build without CUDA");
}

}  // namespace rondo::gpu
