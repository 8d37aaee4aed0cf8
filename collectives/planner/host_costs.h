// HostCosts: what steps and bytes cost ranks in host memory: the one table of rates that the
// planner, `rondo explain` and ncclGroupSimulateEnd predict by, and that `rondo tune` measures.
//
// A plan's work (host_work.h) is a number for each rate; its time is the sum of the products.
// Priors were fitted to measurements on two cores of an AMD EPYC (docs/internals/algorithms.md).
// Guarantees: only + - * / on doubles, so that all ranks compute the same bits. Cost: a product a
// rate.
//
//   HostWork work;
//   work[HostRate::kPeer] += ranks - 1;
//   const double ns = work.ns(facts.costs);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rondo {

enum class HostRate : std::uint8_t {
  kCall,      // a call, before anything moves
  kMeet,      // to see that a rank on another core has come
  kPeer,      // to read the line or step of each peer
  kSwitch,    // to give a core to the next of the ranks that share it
  kCopy,      // a byte copied, in the caches
  kSum,       // a byte of a peer that is added, in the caches
  kMemory,    // what a byte takes longer that the shared cache has no room for
  kSlot,      // a chunk handed on by a connection inside a host
  kLink,      // a chunk handed on between hosts
  kLinkByte,  // a byte that leaves a host
  kRelay      // a call in which ranks sleep until others of their host have crossed the network
};
inline constexpr std::size_t kHostRates = 11;

struct HostRateInfo {
  HostRate rate;
  std::string_view name;  // in tune files and explanations
  double prior;           // ns
};
inline constexpr HostRateInfo kHostRateTable[kHostRates] = {
    {HostRate::kCall, "call", 74},        {HostRate::kMeet, "meet", 40},
    {HostRate::kPeer, "peer", 5.7},       {HostRate::kSwitch, "switch", 1750},
    {HostRate::kCopy, "copy", 0.018},     {HostRate::kSum, "sum", 0.02},
    {HostRate::kMemory, "memory", 0.047}, {HostRate::kSlot, "slot", 200},
    {HostRate::kLink, "link", 6400},      {HostRate::kLinkByte, "link_byte", 0.11},
    {HostRate::kRelay, "relay", 1500},
};

constexpr std::array<double, kHostRates> host_priors() {
  std::array<double, kHostRates> ns{};
  for (const HostRateInfo& info : kHostRateTable)
    ns[static_cast<std::size_t>(info.rate)] = info.prior;
  return ns;
}

struct HostCosts {
  std::array<double, kHostRates> ns = host_priors();  // a unit, by HostRate
  bool measured = false;                              // by every rank's tune file, not priors

  double of(HostRate rate) const { return ns[static_cast<std::size_t>(rate)]; }

  static constexpr double kMaxNs = 1e9;
  bool plausible() const {
    for (const double rate : ns)
      if (!(rate > 0 && rate <= kMaxNs)) return false;
    return true;
  }
  // Of two ranks: the slower one's, each.
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
};

}  // namespace rondo
