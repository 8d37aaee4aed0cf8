// What GPUs, wires and networks take for things that nobody has measured here: priors, in one
// table, by which the planner chooses (device_work.h) and the simulator plays. Each has its source,
// or says that it is assumed; whoever predicts by them says so too.
#pragma once

#include "kernels/cuda/connected_args.h"
#include "kernels/sim/machine.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

enum class LinkClass { kNvLink, kPci, kNetwork };

// Of one CTA of the kernels over connections: from the predictions in kernels/cuda/shapes.h (0.2 us
// for a job's barriers; Simple copies 64 KiB in 1.4 us, sums them in 1.7; LL moves 8 KiB in 0.9,
// LL128 30 KiB in 1.4), the bytes that a protocol puts on the wire for one of data.
sim::VerbCost verb_cost(cuda::Protocol protocol);

// Of one CTA of direct kernels: as Simple's, without connections' barriers.
sim::VerbCost direct_cost();
// CTAs of a GPU that share a direct kernel of several devices, of those that it may have.
inline constexpr int kDirectCtasOfGpu = 32;

// From the last byte's arrival until the peer has seen it, ns. NVLink, PCI and network as in the
// model that NCCL publishes (0.6, 1.0, 2.7 us a hop of LL; 1.9, 2.5, 4.0 of LL128), but Simple
// within a host as shapes.h predicts it (a fence, a flag and a poll: 2 us), and 14 us by a proxy.
double hop_ns(cuda::Protocol protocol, LinkClass link);

// Before the first verb: to launch a kernel and to notice its end. As the base of NCCL's model for
// LL, 6.6 us. Assumed: what a launch takes right behind another one of its stream, and what another
// CTA is to save before it is worth its multiprocessor (a job's barriers take twice as long).
inline constexpr double kLaunchNs = 6600;
inline constexpr double kNextLaunchNs = 2000;
inline constexpr double kCtaNs = 100;
// Of a connection between GPUs of a host.
inline constexpr int kConnectionSlots = 4;
// Jobs of a channel that follow each other for a chunk of each of the two trees and each way: about
// as many as the rounds that the simulator plays take (docs/simulator.md).
inline constexpr double kTreeJobs = 5;

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

// Of what a wire carries after line coding, what is left for data: NVLink as rings of NCCL without
// multicast are published to reach it (A100 230 of 300 GB/s, H100 370 of 450, B200 830 of 900);
// PCI packets of 256 bytes with 24 of headers, and their acknowledgements; InfiniBand and RoCE at
// 4 KiB packets.
double wire_efficiency(topology::GraphLinkKind kind, int compute);
inline constexpr double kPortEfficiency = 0.96;

// Of a GPU's way out, where its graph is not asked: NVLink of an H100, PCI 4.0 x16, a port of 200
// Gb/s; each with its efficiency.
inline constexpr double kLinkGbs[] = {450 * 0.82, 31.5 * 0.86, 25 * kPortEfficiency};
// Of the memory of a GPU, to and fro: an H100's, as vendors publish it.
inline constexpr double kDeviceMemoryGbs = 3350;

}  // namespace rondo::gpu
