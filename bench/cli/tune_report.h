// SPDX-License-Identifier: Apache-2.0
// Output of rondo tune: the measured rates with their priors, and every measured call with the
// prediction from these rates.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/cli/tune_peer.h"
#include "bench/cli/tune_run.h"
#include "collectives/planner/device_fit.h"
#include "collectives/planner/host_costs.h"

namespace rondo::cli {

// The collectives that are measured in host memory: the values of --only.
std::vector<std::string> measured_collectives();

// rondo tune in host memory: measures calls, each with a forced algorithm, and converts them to
// samples for the cost model.
//
// Ranks are processes on this host, on simulated hosts (NCCL_HOSTID, over loopback), or on this
// host and a peer. Cost: seconds.
//
// `only`: only this collective; empty: all. `peer`: the other host for calls between hosts, which
// must make the same call; null: loopback.
Result<std::vector<MeasuredCall>> measure_host_calls(const TuneSizes& sizes, std::string_view only,
                                                     TunePeer* peer);

// The work of a call, as the planner sees it.
Result<CostSample> sample_of(const MeasuredCall& call);

// A prediction within kCloseFactor counts as close; within kUsableFactor it can select plans.
inline constexpr double kCloseFactor = 1.25, kUsableFactor = 1.5;

void print_rates(const HostCosts& costs);
// Also prints what was not measured, and why.
void print_rates(const gpu::DeviceCosts& costs, int devices);

void print_calls(const std::vector<MeasuredCall>& calls, const std::vector<CostSample>& samples,
                 const HostCosts& costs);
void print_calls(const std::vector<MeasuredCall>& calls,
                 const std::vector<gpu::DeviceSample>& samples, const gpu::DeviceCosts& costs);

void print_share(double close, std::size_t calls);

// rondo tune on GPUs: measures calls, each with a forced algorithm, and converts them to samples
// for the cost model.
//
// Ranks of one process on one GPU give the costs of launches, CTAs, hops within the GPU and its
// memory. With several GPUs, ranks with one GPU each, in one process and in several, also give the
// costs of links and hops between GPUs. Networks between GPUs are not measured. Cost: some seconds
// per GPU kind.
//
// `only`: only this collective; empty: all. Empty result: nothing was to be measured.
Result<std::vector<MeasuredCall>> measure_device_calls(const TuneSizes& sizes,
                                                       std::string_view only, int devices);

// The call as the planner sees it. None if the ranks' own prediction shows that they ran another
// plan than this process computes for them.
Result<std::optional<gpu::DeviceSample>> device_sample_of(const MeasuredCall& call);

}  // namespace rondo::cli
