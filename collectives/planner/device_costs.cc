// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/device_costs.h"

#include <algorithm>
#include <cassert>

#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/multicast_args.h"

namespace rondo::gpu {

sim::VerbCost verb_cost(cuda::Protocol protocol, const DeviceCosts& costs) {
  const double ll = 1 / costs.of(DeviceRate::kLL), ll128 = 1 / costs.of(DeviceRate::kLL128);
  switch (protocol) {
    case cuda::Protocol::kSimple:
      return {.fixed_ns = costs.of(DeviceRate::kJob),
              .copy_gbs = 1 / costs.of(DeviceRate::kCopy),
              .sum_gbs = 1 / costs.of(DeviceRate::kSum),
              .wire_bytes = 1};
    case cuda::Protocol::kLL:
      return {.fixed_ns = 0, .copy_gbs = ll, .sum_gbs = ll, .wire_bytes = 2};
    case cuda::Protocol::kLL128:
      return {.fixed_ns = 0, .copy_gbs = ll128, .sum_gbs = ll128, .wire_bytes = 128.0 / 120};
  }
  return {};
}

sim::VerbCost direct_cost(const DeviceCosts& costs) {
  sim::VerbCost cost = verb_cost(cuda::Protocol::kSimple, costs);
  cost.fixed_ns = 0;
  cost.wire_bytes = 1 / kDirectEfficiency;
  return cost;
}

double hop_ns(cuda::Protocol protocol, LinkClass link, const DeviceCosts& costs) {
  constexpr double kNetworkNs[cuda::kProtocols] = {14000, 2700, 4000};
  constexpr DeviceRate kRates[cuda::kProtocols][3] = {
      {DeviceRate::kPeerSimple, DeviceRate::kHostSimple, DeviceRate::kOwnSimple},
      {DeviceRate::kPeerLL, DeviceRate::kHostLL, DeviceRate::kOwnLL},
      {DeviceRate::kPeerLL128, DeviceRate::kHostLL128, DeviceRate::kOwnLL128}};
  const int row = static_cast<int>(protocol);
  switch (link) {
    case LinkClass::kNvLink:
      return costs.of(kRates[row][0]);
    case LinkClass::kPci:
      return costs.of(kRates[row][1]);
    case LinkClass::kNetwork:
      return kNetworkNs[row];
    case LinkClass::kOwn:
      break;
  }
  return costs.of(kRates[row][2]);
}

double push_hop_ns(LinkClass link, const DeviceCosts& costs) {
  return kPushShare * hop_ns(cuda::Protocol::kLL, link, costs);
}
double barrier_ns(LinkClass link, const DeviceCosts& costs) {
  return kBarrierShare * hop_ns(cuda::Protocol::kSimple, link, costs);
}

double ring_cta_gbs(std::uint64_t slot_bytes, const DeviceCosts& costs) {
  assert(slot_bytes > 0);
  const auto bytes = static_cast<double>(slot_bytes);
  const sim::VerbCost verb = verb_cost(cuda::Protocol::kSimple, costs);
  const double job = verb.fixed_ns + bytes / verb.sum_gbs;
  const double hop = hop_ns(cuda::Protocol::kSimple, LinkClass::kNvLink, costs);
  return bytes / std::max(job, (job + hop) / 2);
}

double link_gbs(LinkClass link, const DeviceCosts& costs) {
  constexpr double kPortGbs = 25;
  switch (link) {
    case LinkClass::kNvLink:
      return 1 / costs.of(DeviceRate::kPeerByte);
    case LinkClass::kPci:
      return 1 / costs.of(DeviceRate::kHostByte);
    case LinkClass::kNetwork:
      return kPortGbs * kPortEfficiency;
    case LinkClass::kOwn:
      break;
  }
  return 1 / (2 * costs.of(DeviceRate::kMemory));  // a read and a write
}

sim::MulticastCost multicast_cost(int compute) {
  constexpr std::uint64_t kVectorBytes = 16;
  sim::MulticastCost cost;
  cost.load_ns = 900;
  cost.sum_ns = kMulticastFirstNs;
  cost.barrier_ns = barrier_ns(LinkClass::kNvLink);
  cost.batch_bytes = kVectorBytes * cuda::shapes::kMulticastRows * cuda::kMulticastThreads;
  cost.wire_bytes =
      wire_efficiency(topology::GraphLinkKind::kNvLink, compute) / kMulticastEfficiency;
  return cost;
}

double wire_efficiency(topology::GraphLinkKind kind, int compute) {
  switch (kind) {
    case topology::GraphLinkKind::kNvLink:
      return compute >= 100 ? 0.92 : compute >= 90 ? 0.82 : 0.77;
    case topology::GraphLinkKind::kPci:
      return 0.86;
    case topology::GraphLinkKind::kC2c:
    case topology::GraphLinkKind::kSockets:
      return 0.8;
  }
  return 1;
}

}  // namespace rondo::gpu
