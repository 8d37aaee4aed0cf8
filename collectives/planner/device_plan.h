// SPDX-License-Identifier: Apache-2.0
// DevicePlan: how a collective of ranks on CUDA devices runs. A pure function of what the ranks
// agreed on and of the call's record.
//
// Ranks of one device use one kernel without waits (direct), unless NCCL_ALGO requests an algorithm
// over connections. Several devices that reach each other push small calls into each other's memory
// (LL push), or share a direct kernel's work between barriers, on staging, or in the buffers if
// these are in symmetric windows. Larger calls, and devices that do not reach each other, use rings
// and trees for the five collectives that have them. On request, sums and all-gathers use multicast
// memory (NVLS). Of the algorithms that may run a call, the one with the least predicted time is
// taken (device_work.h), by rates that `rondo tune` measured or by priors, unless a tuner plugin
// prefers another (tuned_ways.h).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "collectives/planner/device_facts.h"
#include "kernels/cuda/direct_args.h"

namespace rondo::gpu {

// True if lines of 128 bytes are known, by measurement, to arrive whole in memory of devices of
// this compute capability (90) over this path.
enum class LinePath : std::uint8_t { kWithinDevice, kBetweenDevices };
bool lines_stay_whole(int capability, LinePath path);

// True if any call may run over connections: then they must be created.
bool wants_connections(const DevicePlanFacts& facts);
Result<DevicePlan> make_device_plan(const DevicePlanFacts& facts, const CallRecord& record);

// True if any call may run as NVLS: then multicast memory should be created.
bool wants_multicast(const DevicePlanFacts& facts);

// Predicted time of a plan by the rates in the facts: the launch and the plan's work
// (device_work.h).
double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan);
// The rates that this time depends on: bit_of(DeviceRate). Cost: one prediction per rate.
std::uint32_t rates_of(const DevicePlanFacts& facts, const CallRecord& record,
                       const DevicePlan& plan);
// Time of the call's plan, in nanoseconds; 0 if no plan can run it.
double predicted_ns(const DevicePlanFacts& facts, const CallRecord& record);

// CTAs per GPU that share a direct kernel of several devices: kDirectCtasOfGpu, or more if these
// cannot keep its links busy.
int direct_ctas(double link_gbs, const DeviceCosts& costs);

}  // namespace rondo::gpu
