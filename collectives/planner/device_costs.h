// What GPUs, wires and networks take, by which the planner chooses (device_work.h) and the
// simulator plays: rates that `rondo tune` can measure (device_rates.h), in the forms that models
// want them, and beside them priors that nobody has measured. Each has its source, or says that it
// is assumed; predictions made from them say so too.
#pragma once

#include "collectives/planner/device_rates.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/sim/machine.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

// Between GPUs with P2P access; through host memory; between hosts; within one GPU.
enum class LinkClass { kNvLink, kPci, kNetwork, kOwn };

// Of one CTA of the kernels over connections, and the bytes that a protocol puts on the wire for
// one of data.
sim::VerbCost verb_cost(cuda::Protocol protocol, const DeviceCosts& costs = kDevicePriors);

// Of one CTA of direct kernels: as Simple's, without connections' barriers.
sim::VerbCost direct_cost(const DeviceCosts& costs = kDevicePriors);
// CTAs of a GPU that share a direct kernel of several devices, of those that it may have.
inline constexpr int kDirectCtasOfGpu = 32;

// From the last byte's arrival until the peer has seen it, ns. Networks as in the model that NCCL
// publishes (2.7 us a hop of LL, 4.0 of LL128), but 14 us of Simple by a proxy.
double hop_ns(cuda::Protocol protocol, LinkClass link, const DeviceCosts& costs = kDevicePriors);

// Jobs of a channel that follow each other for a chunk of each of the two trees: of both ways of an
// all-reduce, of a reduction, of a broadcast; the part of a round's time on the busiest wire that a
// first chunk spends on each hop; slots that hold what a leaf of the other tree serves later.
// Fitted to the simulator (docs/plan/simulate.md).
inline constexpr double kTreeJobs = 4.2, kTreeSums = 3, kTreeCopies = 2;
inline constexpr double kTreeFirst = 0.25;
// Of a tree that is rooted at a root some ranks have children in both trees: half as much again.
inline constexpr double kHungShare = 2.0 / 3;
inline constexpr double kTreeSlotsKept = 1;

// Direct kernels load and store over the links, of which rings reach 370 GB/s on an H100, and
// NCCL's symmetric kernels 320 at least by its own model.
inline constexpr double kDirectEfficiency = 320.0 / 370;
// Multicast, from kernels/cuda/shapes.h: 23 GB/s a CTA, and 2 us for the switch's first sums; of 8
// H100, whose rings reach 370 GB/s, 275 are published, counted as bytes of an all-reduce's result.
inline constexpr double kMulticastCtaGbs = 23;
inline constexpr double kMulticastGain = 275.0 / 370;
inline constexpr double kMulticastFirstNs = 2000;
// The same for the simulator: loads, sums and barriers of a CTA from shapes.h; of an NVLink's 450
// GB/s what is left for data, of which 8 ranks need 1.125 bytes each way a byte of result.
inline constexpr double kMulticastEfficiency = 275 * 1.125 / 450;
sim::MulticastCost multicast_cost(int compute);

// Of one CTA of a ring of float32 sums, by kernels/cuda/shapes.h (Slices, two a chunk): how many
// channels a GPU's links are worth.
inline constexpr double kRingCtaGbs = 35;

// Of what a wire carries after line coding, what is left for data: NVLink as rings of NCCL without
// multicast are published to reach it (A100 230 of 300 GB/s, H100 370 of 450, B200 830 of 900);
// PCI packets of 256 bytes with 24 of headers, and their acknowledgements; InfiniBand and RoCE at
// 4 KiB packets.
double wire_efficiency(topology::GraphLinkKind kind, int compute);
inline constexpr double kPortEfficiency = 0.96;

// Of a GPU's way out, where its graph is not asked; of hosts a port of 200 Gb/s.
double link_gbs(LinkClass link, const DeviceCosts& costs = kDevicePriors);

}  // namespace rondo::gpu
