// SPDX-License-Identifier: Apache-2.0
// Costs of GPUs, wires and networks, for the planner's predictions (device_work.h) and for the
// simulator: rates that `rondo tune` can measure (device_rates.h), in the units of the models, and
// unmeasured priors. Each prior names its source or is marked as assumed; so are predictions that
// use priors.
#pragma once

#include "collectives/planner/device_rates.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/sim/machine.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

// In order: GPUs with P2P access; through host memory; between hosts; within one GPU.
enum class LinkClass { kNvLink, kPci, kNetwork, kOwn };

// Cost of one CTA of the kernels over connections, and the bytes that a protocol puts on the wire
// per byte of data.
sim::VerbCost verb_cost(cuda::Protocol protocol, const DeviceCosts& costs = kDevicePriors);

// Cost of one CTA of direct kernels: as Simple, without the barriers of connections.
sim::VerbCost direct_cost(const DeviceCosts& costs = kDevicePriors);

// Time from the last byte's arrival until the peer has seen it, in ns. For networks as in NCCL's
// published model (2.7 us per hop of LL, 4.0 of LL128), but 14 us for Simple by a proxy.
double hop_ns(cuda::Protocol protocol, LinkClass link, const DeviceCosts& costs = kDevicePriors);

// Shares of a hop over connections that are left where threads store and poll themselves, without
// control warp and signal warp. LL push: 0.6 us of 3.7, as in NCCL's published model of LL over
// NVLink. Barriers of shared and multicast kernels: 2 us of 4.8, for a release, a store over the
// link, and an acquire. Both unmeasured. Within one H200 a fence of the system took 571 ns, a bare
// hop 248 and a load 190 (bench/results/h200/probe.json: fences.sys_flag_on_device;
// host_memory.hop_between_ctas_device; host_memory.load_device_1).
inline constexpr double kPushShare = 0.6 / 3.7, kBarrierShare = 2.0 / 4.8;
double push_hop_ns(LinkClass link, const DeviceCosts& costs = kDevicePriors);
double barrier_ns(LinkClass link, const DeviceCosts& costs = kDevicePriors);

// Constants of the tree model. kTreeJobs, kRootedJobs: consecutive jobs of a channel per chunk of
// each of the two trees, for both directions of an all-reduce, and for a call with a root.
// kTreeFirst: share of a round's time on the busiest wire that a first chunk spends on each hop.
// kTreeSlotsKept: slots whose data a leaf of the other tree uses later, if a channel runs both.
// Fitted to the simulator (docs/plan/simulate.md).
inline constexpr double kTreeJobs = 4.2, kRootedJobs = 2;
inline constexpr double kTreeFirst = 0.25;
inline constexpr double kTreeSlotsKept = 2;
// Share of the trees' rate that is left for a call with a root where its wires are not known.
inline constexpr double kRootedShare = 2.0 / 3;

// Direct kernels load and store over the links. Rings reach 370 GB/s on an H100; NCCL's symmetric
// kernels reach at least 320 by NCCL's own model.
inline constexpr double kDirectEfficiency = 320.0 / 370;
// Multicast, from kernels/cuda/shapes.h: 23 GB/s per CTA, and 2 us for the switch's first sums. For
// 8 H100, whose rings reach 370 GB/s, 275 GB/s are published, counted in bytes of an all-reduce's
// result.
inline constexpr double kMulticastCtaGbs = 23;
inline constexpr double kMulticastGain = 275.0 / 370;
inline constexpr double kMulticastFirstNs = 2000;
// The same for the simulator: loads, sums and barriers of a CTA from shapes.h; the share of an
// NVLink's 450 GB/s that is left for data. 8 ranks need 1.125 bytes in each direction per byte of
// result.
inline constexpr double kMulticastEfficiency = 275 * 1.125 / 450;
sim::MulticastCost multicast_cost(int compute);

// Rate of one CTA of a ring of float32 sums by Simple, whose chunks are two slots of this size:
// determines how many channels a GPU's links are worth. Until the peer sees a slot, the CTA works
// on the other one (kernels/cuda/shapes.h: Slices). By the priors: 18 GB/s with slots of 64 KiB, 30
// with 256.
double ring_cta_gbs(std::uint64_t slot_bytes, const DeviceCosts& costs = kDevicePriors);

// Share of a wire's rate after line coding that is left for data. NVLink: as published for NCCL
// rings without multicast (A100 230 of 300 GB/s, H100 370 of 450, B200 830 of 900). PCI: packets of
// 256 bytes with 24 of headers, and their acknowledgements. InfiniBand and RoCE: 4 KiB packets.
double wire_efficiency(topology::GraphLinkKind kind, int compute);
inline constexpr double kPortEfficiency = 0.96;

// Rate of a GPU's outgoing link, used without its graph; between hosts, a port of 200 Gb/s.
double link_gbs(LinkClass link, const DeviceCosts& costs = kDevicePriors);

}  // namespace rondo::gpu
