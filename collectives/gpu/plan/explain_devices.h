// SPDX-License-Identifier: Apache-2.0
// Explains in words how a call on CUDA devices of one host, or of several, would run, and why. Uses
// only device_plan.h and recent_device_plans.h; needs no device.
#pragma once

#include <vector>

#include "collectives/planner/device_plan.h"
#include "collectives/planner/explain.h"

namespace rondo::gpu {

// The planner's facts under default settings: `ranks` dealt over `devices`. processes: each rank is
// in a process of its own, else all are in one. Not for calls that pass through the host.
DevicePlanFacts usual_facts(int ranks, int devices, bool all_reach, bool processes = false);
// True if processes share some of several GPUs: then the host does all calls.
bool is_through_host(int ranks, int devices, bool processes);
// Rows for such a call. by_host: rows for the call as the host does it.
std::vector<ExplainRow> explain_through_host(int ranks, int devices, const CallRecord& record,
                                             const std::vector<ExplainRow>& by_host);
// Rows for a call; one row "refused" if nothing can run it.
std::vector<ExplainRow> explain_on_devices(const DevicePlanFacts& facts, const CallRecord& record);

// For ranks on several hosts.
struct InternodeQuestion {
  DevicePlanFacts facts;  // of usual_internode_facts(), and the settings
  int hosts = 2;
  bool own_gpus = true;  // each rank has a GPU of its own
  std::uint64_t from_bytes = 0;
};
// by_hosts: rows for the call as done by one of the hosts; appended if the hosts do it.
std::vector<ExplainRow> explain_across_hosts(const InternodeQuestion& question,
                                             const CallRecord& record,
                                             const std::vector<ExplainRow>& by_hosts);

}  // namespace rondo::gpu
