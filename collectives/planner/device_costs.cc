#include "collectives/planner/device_costs.h"

#include "kernels/cuda/multicast_args.h"

namespace rondo::gpu {

sim::VerbCost verb_cost(cuda::Protocol protocol) {
  switch (protocol) {
    case cuda::Protocol::kSimple:
      return {.fixed_ns = 200, .copy_gbs = 54.6, .sum_gbs = 43.7, .wire_bytes = 1};
    case cuda::Protocol::kLL:
      return {.fixed_ns = 0, .copy_gbs = 9.1, .sum_gbs = 9.1, .wire_bytes = 2};
    case cuda::Protocol::kLL128:
      return {.fixed_ns = 0, .copy_gbs = 21, .sum_gbs = 21, .wire_bytes = 128.0 / 120};
  }
  return {};
}

sim::VerbCost direct_cost() { return {.fixed_ns = 0, .copy_gbs = 54.6, .sum_gbs = 43.7}; }

sim::MulticastCost multicast_cost(int compute) {
  constexpr std::uint64_t kVectorBytes = 16;
  sim::MulticastCost cost;
  cost.load_ns = 900;
  cost.sum_ns = kMulticastFirstNs;
  cost.barrier_ns = hop_ns(cuda::Protocol::kSimple, LinkClass::kNvLink);
  cost.batch_bytes = kVectorBytes * cuda::shapes::kMulticastRows * cuda::kMulticastThreads;
  cost.wire_bytes =
      wire_efficiency(topology::GraphLinkKind::kNvLink, compute) / kMulticastEfficiency;
  return cost;
}

double hop_ns(cuda::Protocol protocol, LinkClass link) {
  constexpr double kNs[cuda::kProtocols][3] = {
      {2000, 2900, 14000}, {600, 1000, 2700}, {1900, 2500, 4000}};
  return kNs[static_cast<int>(protocol)][static_cast<int>(link)];
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
