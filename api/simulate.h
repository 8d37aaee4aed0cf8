// SPDX-License-Identifier: Apache-2.0
// ncclGroupSimulateEnd's estimate: the sum of the planner's predicted times of a group's calls.
#pragma once

#include <vector>

#include "api/execute.h"
#include "api/nccl.h"
#include "base/result.h"

namespace rondo::api {

// Fills info. NULL: only checks the calls.
Status simulate(const std::vector<GroupEntry>& entries, ncclSimInfo_t* info);

}  // namespace rondo::api
