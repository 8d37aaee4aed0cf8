// SPDX-License-Identifier: Apache-2.0
// rondo tune on GPUs: measures calls, each with a forced algorithm, and converts them to samples
// for the cost model.
//
// Ranks of one process on one GPU give the costs of launches, CTAs, hops within the GPU and its
// memory. With several GPUs, ranks with one GPU each, in one process and in several, also give the
// costs of links and hops between GPUs. Networks between GPUs are not measured. Cost: some seconds
// per GPU kind.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/cli/tune_run.h"
#include "collectives/planner/device_fit.h"

namespace rondo::cli {

// `only`: only this collective; empty: all. Empty result: nothing was to be measured.
Result<std::vector<MeasuredCall>> measure_device_calls(const TuneSizes& sizes,
                                                       std::string_view only, int devices);

// The call as the planner sees it. None if the ranks' own prediction shows that they ran another
// plan than this process computes for them.
Result<std::optional<gpu::DeviceSample>> device_sample_of(const MeasuredCall& call);

}  // namespace rondo::cli
