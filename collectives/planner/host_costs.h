// SPDX-License-Identifier: Apache-2.0
// HostCosts: the cost of steps and bytes for ranks in host memory. This is the one table of rates
// for the planner, `rondo explain` and ncclGroupSimulateEnd; `rondo tune` measures it.
//
// A plan's work (host_work.h) is a number per rate; its time is the sum of the products. Priors
// were fitted to measurements on two cores of an AMD EPYC (docs/internals/algorithms.md).
// Guarantees: only + - * / on doubles, so all ranks compute the same bits. Cost: one product per
// rate.
//
//   HostWork work;
//   work[HostRate::kPeer] += ranks - 1;
//   const double ns = work.ns(facts.costs);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rondo {

enum class HostRate : std::uint8_t {
  kCall,      // a call, before anything moves
  kMeet,      // see that a rank on another core has arrived
  kPeer,      // read the line or step of each peer
  kSwitch,    // give a core to the next rank that shares it
  kCopy,      // a byte copied, in the caches
  kSum,       // a byte of a peer added, in the caches
  kMemory,    // extra time of a byte that does not fit in the shared cache
  kSlot,      // a chunk sent through a connection inside a host
  kLink,      // a chunk sent between hosts
  kLinkByte,  // a byte that leaves a host
  kRelay,     // a call in which ranks sleep until other ranks of their host have used the network
  kRead,      // a read of a peer's private memory: the system call
  kReadByte   // a byte of it, in the caches
};
inline constexpr std::size_t kHostRates = 13;

struct HostRateInfo {
  HostRate rate;
  std::string_view name;  // in tune files and explanations
  double prior;           // ns
};
inline constexpr HostRateInfo kHostRateTable[kHostRates] = {
    {HostRate::kCall, "call", 74},
    {HostRate::kMeet, "meet", 40},
    {HostRate::kPeer, "peer", 5.7},
    {HostRate::kSwitch, "switch", 1750},
    {HostRate::kCopy, "copy", 0.018},
    {HostRate::kSum, "sum", 0.02},
    {HostRate::kMemory, "memory", 0.047},
    {HostRate::kSlot, "slot", 200},
    {HostRate::kLink, "link", 6400},
    {HostRate::kLinkByte, "link_byte", 0.11},
    {HostRate::kRelay, "relay", 1500},
    {HostRate::kRead, "read", 1450},
    {HostRate::kReadByte, "read_byte", 0.064},
};

constexpr std::array<double, kHostRates> host_priors() {
  std::array<double, kHostRates> ns{};
  for (const HostRateInfo& info : kHostRateTable)
    ns[static_cast<std::size_t>(info.rate)] = info.prior;
  return ns;
}

struct HostCosts {
  std::array<double, kHostRates> ns = host_priors();  // ns per unit, by HostRate
  bool measured = false;  // measured in every rank's tune file; false: priors

  double of(HostRate rate) const { return ns[static_cast<std::size_t>(rate)]; }

  static constexpr double kMaxNs = 1e9;
  bool plausible() const {
    for (const double rate : ns)
      if (!(rate > 0 && rate <= kMaxNs)) return false;
    return true;
  }
  // Combines two ranks: takes the slower rate of each.
  void add(const HostCosts& other) {
    for (std::size_t i = 0; i < kHostRates; ++i)
      if (other.ns[i] > ns[i]) ns[i] = other.ns[i];
    measured = measured && other.measured;
  }
};

struct HostWork {
  std::array<double, kHostRates> amount{};  // by HostRate

  double& operator[](HostRate rate) { return amount[static_cast<std::size_t>(rate)]; }
  double ns(const HostCosts& costs) const {
    double sum = 0;
    for (std::size_t i = 0; i < kHostRates; ++i) sum += amount[i] * costs.ns[i];
    return sum;
  }
  // The part of ns() that copies and sums take.
  double moving_ns(const HostCosts& costs) const {
    double sum = 0;
    for (const HostRate rate : {HostRate::kCopy, HostRate::kSum, HostRate::kMemory})
      sum += amount[static_cast<std::size_t>(rate)] * costs.of(rate);
    return sum;
  }
};

// fit_costs(): fits the cost rates to measured calls.
//
// Minimizes the squares of relative errors, in which half and double are equally wrong. Rates stay
// above zero. All rates are pulled slightly towards their priors; a rate that no sample depends on
// keeps its prior. Pure. Cost: microseconds per sample.
struct CostSample {
  HostWork work;
  double ns = 0;
};

HostCosts fit_costs(std::span<const CostSample> samples);

// Share of the samples whose prediction is within this factor of the measurement (1.25: between 0.8
// and 1.25).
double share_within(std::span<const CostSample> samples, const HostCosts& costs, double factor);

}  // namespace rondo
