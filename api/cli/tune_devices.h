// What rondo tune measures of ranks on GPUs: calls, each in a way that is forced, and what the
// model makes of them.
//
// Ranks of one process on one GPU tell launches, the work of CTAs, hops within it and its memory.
// Where there are several GPUs, ranks of one process and processes, a GPU each, tell links and hops
// between them as well. Networks between GPUs are not measured. Cost: some seconds a GPU kind.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "api/cli/tune_run.h"
#include "base/result.h"
#include "collectives/planner/device_fit.h"

namespace rondo::cli {

// `only`: of this collective, empty: of all. Nothing where none is measured.
Result<std::vector<MeasuredCall>> measure_device_calls(const TuneSizes& sizes,
                                                       std::string_view only, int devices);

// The call as the planner sees it. None where the ranks, by what they said that it would take, ran
// another plan than is known of them here.
Result<std::optional<gpu::DeviceSample>> device_sample_of(const MeasuredCall& call);

}  // namespace rondo::cli
