// SPDX-License-Identifier: Apache-2.0
// The predicted time of a plan on GPUs, by the rates in the facts: steps of the slowest path, bytes
// on the busiest wire, launches, barriers. The planner takes the plan with the least time
// (device_strategies.cc); ncclGroupSimulateEnd and explanations report it.
//
// Rates are measured if ranks have `rondo tune` files, else priors (device_rates.h), plus constants
// that no file holds (device_costs.h). `rondo simulate` uses the same priors and models each wire.
// A pure function of what all ranks agreed on: only + - * / on doubles, so all ranks compute the
// same bits. Cost: some tens of operations.
#pragma once

#include "collectives/planner/device_facts.h"

namespace rondo::gpu {

struct DeviceCall;  // a call and its facts (device_work.cc)

// Elements of each block of a call that fit into `staging` bytes of a rank's; in whole lines if
// one fits. Shared kernels do a longer sum in pieces of that size.
std::uint64_t staged_elements(std::uint64_t staging, const CallRecord& record, int ranks);

// Time after the launch: a column of the strategies' rows (device_strategies.cc).
using NsAfterLaunch = double (*)(const DeviceCall& call, const DevicePlan& plan);
// The launch and the plan's work.
double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan,
                 NsAfterLaunch work);
double connected_ns(const DeviceCall& call, const DevicePlan& plan);
double ll_push_ns(const DeviceCall& call, const DevicePlan& plan);
double in_place_ns(const DeviceCall& call, const DevicePlan& plan);
double staged_ns(const DeviceCall& call, const DevicePlan& plan);
double multicast_ns(const DeviceCall& call, const DevicePlan& plan);
double messages_ns(const DeviceCall& call, const DevicePlan& plan);
double direct_ns(const DeviceCall& call, const DevicePlan& plan);

}  // namespace rondo::gpu
