// What a call on CUDA devices of one host, or of several, would run as, and why, in words. A pure
// use of device_plan.h and internode_plan.h: needs no device.
#pragma once

#include <vector>

#include "collectives/planner/device_plan.h"
#include "collectives/planner/explain.h"

namespace rondo::gpu {

// Facts as the planner has them where nothing is said: `ranks` dealt over `devices`.
// processes: each rank is one, else all are of one.
DevicePlanFacts usual_facts(int ranks, int devices, bool all_reach, bool processes = false);
// Rows for a call. Where nothing can run it, one row "refused".
std::vector<ExplainRow> explain_on_devices(const DevicePlanFacts& facts, const CallRecord& record);

// Of ranks on several hosts.
struct InternodeQuestion {
  DevicePlanFacts facts;  // of usual_internode_facts(), and what was asked for
  int hosts = 2;
  bool own_gpus = true;  // a GPU for each rank
  std::uint64_t from_bytes = 0;
};
// by_hosts: rows for the call as one of the hosts, which follow where they do it.
std::vector<ExplainRow> explain_across_hosts(const InternodeQuestion& question,
                                             const CallRecord& record,
                                             const std::vector<ExplainRow>& by_hosts);

}  // namespace rondo::gpu
