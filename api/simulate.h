// ncclGroupSimulateEnd's estimate: what the calls of a group would take one after the other, by the
// planner's costs.
#pragma once

#include <vector>

#include "api/execute.h"
#include "api/nccl.h"
#include "base/result.h"

namespace rondo::api {

// Fills info (NULL: only checks the calls).
Status simulate(const std::vector<GroupEntry>& entries, ncclSimInfo_t* info);

}  // namespace rondo::api
