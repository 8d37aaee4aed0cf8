// SPDX-License-Identifier: Apache-2.0
// CallLinks: the links between the GPUs of a communicator, as the planner sees them: measured if
// ranks have `rondo tune` files, else from the hosts' graphs if known, else priors.
//
// A pure function of what all ranks agreed on. Cost: some operations.
#pragma once

#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_facts.h"

namespace rondo::gpu {

// Rates are in GB/s, which equals bytes per nanosecond.
struct CallLinks {
  LinkClass near = LinkClass::kNvLink;       // within a host, between neighbors of rings
  LinkClass near_all = LinkClass::kNvLink;   // within a host, between all pairs
  int rings = 1;                             // each has its own wires, or its own port
  double ring_gbs = 0;                       // of each ring
  double tree_gbs = 0, both_gbs = 0;         // see WireRates
  double broadcast_gbs = 0, reduce_gbs = 0;  // the same; 0: unknown
  double direct_gbs = 0;                     // of a GPU that sends to all others of its host
  double port_gbs = 0;                       // of a port, with several hosts
};
CallLinks links_of(const DevicePlanFacts& facts);

}  // namespace rondo::gpu
