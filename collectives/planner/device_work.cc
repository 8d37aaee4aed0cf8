#include "collectives/planner/device_work.h"

#include <algorithm>

#include "collectives/planner/device_costs.h"
#include "collectives/planner/work_estimate.h"

namespace rondo::gpu {
namespace {

struct DeviceCall {
  double ranks, bytes;  // of the call's count
  Collective collective;
  LinkClass link;
  double link_gbs;
};

// Bytes that the busiest rank sends: as parts, whole, or a block for every peer.
double sent_bytes(const DeviceCall& call, bool parts) {
  switch (call.collective) {
    case Collective::kAllReduce:
      return parts ? 2 * call.bytes * (call.ranks - 1) / call.ranks : 2 * call.bytes;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSend:
    case Collective::kRecv:
      return call.bytes;
    default:
      return call.bytes * (call.ranks - 1);
  }
}

double connected_ns(const DeviceCall& call, const DevicePlan& plan, std::uint64_t count) {
  const bool ring = plan.algorithm == Algorithm::kRing;
  const double ways = call.collective == Collective::kAllReduce ? 2 : 1;
  const double steps = ways * (ring ? call.ranks - 1 : log2_of(call.ranks));
  const double of_round = static_cast<double>(plan.channels) * static_cast<double>(plan.per_round);
  const double rounds = of_round > 0 ? static_cast<double>(count) / of_round : 1;
  const sim::VerbCost verb = verb_cost(plan.protocol);
  const double gbs = std::min(plan.channels * verb.sum_gbs, call.link_gbs / verb.wire_bytes);
  return (steps + std::max(rounds - 1, 0.0)) * hop_ns(plan.protocol, call.link) +
         sent_bytes(call, ring) / gbs;
}

double ll_push_ns(const DeviceCall& call, const DevicePlan& plan) {
  const sim::VerbCost verb = verb_cost(cuda::Protocol::kLL);
  const double gbs = std::min(plan.channels * verb.copy_gbs, call.link_gbs / verb.wire_bytes);
  return hop_ns(cuda::Protocol::kLL, call.link) + call.bytes * (call.ranks - 1) / gbs;
}

// Two meetings around what each device reads and writes of the others'.
double met_ns(const DeviceCall& call, bool staged) {
  const double gbs = std::min(kDirectCtasOfGpu * direct_cost().sum_gbs, call.link_gbs);
  const double copies = staged ? 2 * call.bytes / (kDirectCtasOfGpu * direct_cost().copy_gbs) : 0;
  return 2 * hop_ns(cuda::Protocol::kSimple, call.link) + sent_bytes(call, true) / gbs + copies;
}

// One kernel reads everybody's data and writes everybody's results; between devices, over a link.
double direct_ns(const DeviceCall& call, bool one_device) {
  const double moved = call.bytes * call.ranks * 2;
  return moved / (one_device ? kDeviceMemoryGbs : call.link_gbs);
}

}  // namespace

double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan) {
  const LinkClass link = facts.spans_hosts ? LinkClass::kNetwork
                         : facts.all_reach ? LinkClass::kNvLink
                                           : LinkClass::kPci;
  const DeviceCall call{static_cast<double>(facts.ranks),
                        static_cast<double>(record.count * size_of(record.type)), record.collective,
                        link, kLinkGbs[static_cast<int>(link)]};
  switch (plan.strategy) {
    case Strategy::kConnected:
      return kLaunchNs + connected_ns(call, plan, record.count);
    case Strategy::kLLPush:
      return kLaunchNs + ll_push_ns(call, plan);
    case Strategy::kMet:
    case Strategy::kWindows:
    case Strategy::kMulticast:
      return kLaunchNs + met_ns(call, false);
    case Strategy::kShared:
      return kLaunchNs + met_ns(call, true);
    case Strategy::kComposed:  // on each device, across, and back
      return 3 * kLaunchNs + met_ns(call, true);
    case Strategy::kMessages:
      return kLaunchNs + hop_ns(cuda::Protocol::kSimple, link) +
             sent_bytes(call, false) / call.link_gbs;
    default:
      return kLaunchNs + direct_ns(call, facts.devices == 1);
  }
}

double predicted_ns(const DevicePlanFacts& facts, const CallRecord& record) {
  if (record.collective >= Collective::kSend) {
    DevicePlan message;
    message.strategy = Strategy::kMessages;
    return device_ns(facts, record, message);
  }
  const Result<DevicePlan> plan = make_device_plan(facts, record);
  return plan.ok() ? device_ns(facts, record, *plan) : 0;
}

}  // namespace rondo::gpu
