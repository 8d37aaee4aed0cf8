// SPDX-License-Identifier: Apache-2.0
// ask_tuner(): calls a tuner plugin for every collective that has rings, at every size in the grid
// of TunedWays, and returns its choices.
//
// The plugin gets a table of predicted times (device_work.h) for rings and trees with each protocol
// that can run, and -1 in other cells. Of the cells that can run, the cheapest in its answer is
// used:
// - if the plugin has changed its cost, it replaces any choice of the planner;
// - if the plugin has only raised the costs of others, it replaces a ring or tree, but not the
//   algorithms that the table does not have (LL push, direct kernels).
// Its number of channels is an upper limit. An answer without a cell that can run is ignored.
// Cost: 175 calls of the plugin and 175 plans, some hundred microseconds.
#pragma once

#include <string>

#include "collectives/planner/device_facts.h"
#include "collectives/tuner/tuner_plugin.h"

namespace rondo::tuner {

struct Asked {
  gpu::TunedWays ways;
  std::string complaint;  // about unusable answers; empty: none
};
Asked ask_tuner(const Tuner& tuner, const gpu::DevicePlanFacts& facts);

}  // namespace rondo::tuner
