// CallLinks: what joins the GPUs of a communicator, as the planner sees it: measured where ranks
// have files of rondo tune, by the hosts' graphs where these are known, else priors.
//
// A pure function of what all ranks agreed on. Cost: some operations.
#pragma once

#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

// Rates are GB/s, which are bytes a nanosecond.
struct CallLinks {
  LinkClass near = LinkClass::kNvLink;      // within a host: between neighbours of rings,
  LinkClass near_all = LinkClass::kNvLink;  // between all pairs
  int rings = 1;                            // each has wires, or a port, of its own
  double ring_gbs = 0;                      // of each ring
  double tree_gbs = 0, both_gbs = 0;        // as WireRates
  double direct_gbs = 0;                    // of a GPU that sends to all others of its host
  double port_gbs = 0;                      // of several hosts
};
CallLinks links_of(const DevicePlanFacts& facts);

}  // namespace rondo::gpu
