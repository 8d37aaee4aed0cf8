// SPDX-License-Identifier: Apache-2.0
// DeviceCosts: the cost of launches, hops and bytes for ranks on GPUs. The planner predicts with
// these rates (device_work.h); `rondo tune` measures them if there are GPUs.
//
// Each rate is separately either measured or a prior: one GPU measures no link. Costs without a row
// here (networks, multicast, packet overhead of wires) are constants of device_costs.h. Guarantees:
// a plain value, equal on all ranks after they exchanged theirs; each rate is the slowest rank's.
// Cost: copies and comparisons of a few hundred bytes.
//
//   const double ns = facts.costs.of(DeviceRate::kLaunch);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rondo::gpu {

enum class DeviceRate : std::uint8_t {
  kLaunch,      // launch a kernel and notice its end
  kNextLaunch,  // a launch directly after another on the same stream
  kCta,         // one more CTA in a launch
  kJob,         // barriers of a job of Simple, for a CTA over connections
  kCopy,        // one CTA: a byte copied by Simple or a direct kernel
  kSum,         // one CTA: a byte added by the same
  kLL,          // one CTA: a byte of data by LL
  kLL128,       // one CTA: a byte of data by LL128
  kOwnSimple,   // a hop of each protocol within a GPU
  kOwnLL,
  kOwnLL128,
  kPeerSimple,  // a hop between GPUs that reach each other
  kPeerLL,
  kPeerLL128,
  kHostSimple,  // a hop through host memory
  kHostLL,
  kHostLL128,
  kMemory,    // a byte read or written in a GPU's memory
  kPeerByte,  // a byte of data that leaves a GPU for the peers that it reaches
  kHostByte   // a byte of data that leaves a GPU for host memory
};
inline constexpr std::size_t kDeviceRates = 20;

struct DeviceRateInfo {
  DeviceRate rate;
  std::string_view name;  // in tune files and explanations
  double prior;           // ns
};
// Priors. Launches: the base of NCCL's model for LL.
// Work of a CTA: rings of 4 ranks of one H200, which is bound by what an SM reads and writes. Of n
// ranks an all-gather has n copies for n - 1 blocks sent, an all-reduce n copies and n - 1 sums for
// 2n - 2. All-reduces sent 27.6 GB/s by Simple, 6.2 by LL and 10.9 by LL128, all-gathers 22.2, 5.79
// and 11.0 (bench/results/h200/roof_0c3f96bb.txt: ring.Simple-1 64MiB CTA; ring.LL-1 64MiB CTA;
// ring.LL128-1 64MiB CTA; copies.Simple-1 64MiB CTA; copies.LL-1 64MiB CTA; copies.LL128-1 64MiB
// CTA). A job's fixed cost: as predicted in kernels/cuda/shapes.h; the H200 took less than half.
// Hops over connections, from the last byte's arrival until the peer has seen it: within that H200,
// 4757 ns by Simple, 3681 by LL and 4011 by LL128 (bench/results/h200/gpu.tune: own_simple; own_ll;
// own_ll128). Between GPUs the same code runs, and NVLink is assumed to add nothing, so these are
// lower bounds. Through host memory: more by the time of a bare hop there, 1613 ns, which takes 248
// on the device (bench/results/h200/probe.json: host_memory.hop_between_ctas_host;
// host_memory.hop_between_ctas_device).
// Bytes: the vendor's rates for memory and NVLink of an H100 and PCI 4.0 x16, less packet overhead.
// Assumed: a next launch; the saving that justifies another CTA (a job's barriers take twice as
// long).
inline constexpr DeviceRateInfo kDeviceRateTable[kDeviceRates] = {
    {DeviceRate::kLaunch, "launch", 6600},
    {DeviceRate::kNextLaunch, "next_launch", 2000},
    {DeviceRate::kCta, "cta", 100},
    {DeviceRate::kJob, "job", 200},
    {DeviceRate::kCopy, "copy", 1 / 33.0},
    {DeviceRate::kSum, "sum", 1 / 31.0},
    {DeviceRate::kLL, "ll", 1 / 7.4},
    {DeviceRate::kLL128, "ll128", 1 / 13.5},
    {DeviceRate::kOwnSimple, "own_simple", 4800},
    {DeviceRate::kOwnLL, "own_ll", 3700},
    {DeviceRate::kOwnLL128, "own_ll128", 4000},
    {DeviceRate::kPeerSimple, "peer_simple", 4800},
    {DeviceRate::kPeerLL, "peer_ll", 3700},
    {DeviceRate::kPeerLL128, "peer_ll128", 4000},
    {DeviceRate::kHostSimple, "host_simple", 6200},
    {DeviceRate::kHostLL, "host_ll", 5100},
    {DeviceRate::kHostLL128, "host_ll128", 5400},
    {DeviceRate::kMemory, "memory", 1 / 3350.0},
    {DeviceRate::kPeerByte, "peer_byte", 1 / (450 * 0.82)},
    {DeviceRate::kHostByte, "host_byte", 1 / (31.5 * 0.86)},
};

constexpr std::array<double, kDeviceRates> device_priors() {
  std::array<double, kDeviceRates> ns{};
  for (const DeviceRateInfo& info : kDeviceRateTable)
    ns[static_cast<std::size_t>(info.rate)] = info.prior;
  return ns;
}
constexpr std::uint32_t bit_of(DeviceRate rate) {
  return std::uint32_t{1} << static_cast<unsigned>(rate);
}

struct DeviceCosts {
  std::array<double, kDeviceRates> ns = device_priors();  // ns per unit, by DeviceRate
  std::uint32_t measured = 0;  // measured in every rank's tune file: bit_of(DeviceRate)

  constexpr double of(DeviceRate rate) const { return ns[static_cast<std::size_t>(rate)]; }
  constexpr bool is_measured(DeviceRate rate) const { return (measured & bit_of(rate)) != 0; }
  void set(DeviceRate rate, double cost) {
    ns[static_cast<std::size_t>(rate)] = cost;
    measured |= bit_of(rate);
  }

  static constexpr double kMaxNs = 1e9;
  bool plausible() const {
    for (const double rate : ns)
      if (!(rate > 0 && rate <= kMaxNs)) return false;
    return measured >> kDeviceRates == 0;
  }
  // Combines two ranks: takes the slower rate of each.
  void add(const DeviceCosts& other) {
    for (std::size_t i = 0; i < kDeviceRates; ++i)
      if (other.ns[i] > ns[i]) ns[i] = other.ns[i];
    measured &= other.measured;
  }
  friend bool operator==(const DeviceCosts&, const DeviceCosts&) = default;
};
inline constexpr DeviceCosts kDevicePriors{};

}  // namespace rondo::gpu
