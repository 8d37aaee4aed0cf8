// What a call on CUDA devices of one host would run as, and why, in words. A pure use of
// device_plan.h: needs no device.
#pragma once

#include <vector>

#include "collectives/explain.h"
#include "collectives/gpu/device_plan.h"

namespace rondo::gpu {

// Facts as the planner has them where nothing is said: `ranks` dealt over `devices`.
// processes: each rank is one, else all are of one.
DevicePlanFacts usual_facts(int ranks, int devices, bool all_reach, bool processes = false);
// Rows for a call. Where nothing can run it, one row "refused".
std::vector<ExplainRow> explain_on_devices(const DevicePlanFacts& facts, const CallRecord& record,
                                           bool processes = false);

}  // namespace rondo::gpu
