// ask_tuner(): what a tuner plugin says of every collective that has rings, at every size of the
// grid of TunedWays.
//
// The plugin gets a table of predicted times (device_work.h) for rings and trees by each protocol
// that can run, and -1 elsewhere. Of those that can run, the one that costs least then is taken:
// - where the plugin has set that cost, instead of whatever the planner would choose;
// - where it has only made others dearer, instead of a ring or tree, but not of the ways that the
//   table has no place for (LL push, direct kernels).
// Its number of channels is a bound. An answer that names nothing that can run counts as none.
// Cost: 175 calls of the plugin, and as many plans: some hundred microseconds.
#pragma once

#include <string>

#include "collectives/planner/tuned_ways.h"
#include "collectives/tuner/tuner_plugin.h"

namespace rondo::tuner {

struct Asked {
  gpu::TunedWays ways;
  std::string complaint;  // of answers that cannot be followed; empty: there are none
};
Asked ask_tuner(const Tuner& tuner, const gpu::DevicePlanFacts& facts);

}  // namespace rondo::tuner
