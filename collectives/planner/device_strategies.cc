#include "collectives/planner/device_strategies.h"

#include <algorithm>

#include "kernels/algorithms/hung_tree.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/ll_push_args.h"
#include "kernels/cuda/multicast_args.h"

namespace rondo::gpu {
namespace {

using cuda::Protocol;

// Bytes up to which a call goes over LL, and over LL128 where that is allowed; bytes for which
// another channel is worth its start; the least that a chain cuts its data into, so that its links
// work at once.
constexpr std::uint64_t kLLUpTo = 64 << 10;
constexpr std::uint64_t kLL128UpTo = 4 << 20;
constexpr std::uint64_t kBytesPerChannel[cuda::kProtocols] = {128 << 10, 8 << 10, 32 << 10};
constexpr std::uint64_t kSmallestChunk = 8 << 10;
constexpr std::uint64_t kChunksOfAChain = 8;
// Between devices that reach each other: bytes (of a block) up to which LL push is taken, and up to
// which direct kernels share the work; bytes for which another CTA of LL push is worth it.
// Where direct kernels cannot share it (several processes), the next best are the hops of a tree:
// then LL push is taken until this rank's, to all others together, are so many bytes.
constexpr std::uint64_t kLLPushUpTo = 32 << 10;
constexpr std::uint64_t kLLPushToAllUpTo = 256 << 10;
constexpr std::uint64_t kMeetUpTo = 4 << 20;
// Where several processes share the work on staging: from this size on, as LL is no longer used.
constexpr std::uint64_t kShareFrom = kLLUpTo;
constexpr std::uint64_t kBytesPerLLPushCta = 2 << 10;
// Where processes share devices: up to this size one kernel on rank 0's does everything, if it can.
constexpr std::uint64_t kLedUpTo = 32 << 10;
// Through multicast memory: bytes of a block for which another CTA is worth it; rounds into which
// a CTA's part is cut, so that they overlap, unless they were smaller than that in all.
constexpr std::uint64_t kBytesPerMulticastCta = 16 << 10;
constexpr std::uint64_t kMulticastRounds = 4;
constexpr std::uint64_t kLeastMulticastRound = 32 << 10;
// Up to this size the number of steps decides: trees. Between hosts a hop of a ring costs the
// network's latency, so that the size grows with the ranks. By `rondo simulate`, rings and trees of
// 2 to 128 DGX H100 are equally fast for all-reduces of 0.2, 2 (4 hosts), 6, 14, 28, 45 and 80 MiB;
// for broadcasts of 8, 32 and 128 of them at 0.06, 10 and 40 MiB.
constexpr std::uint64_t kTreeUpTo = 256 << 10;
constexpr std::uint64_t kLeastTreeUpTo = 64 << 10;
constexpr std::uint64_t kTreeUpToOfRank = 64 << 10;
constexpr std::uint64_t kRootedTreeUpToOfRank = 32 << 10;  // of each beyond 64
std::uint64_t tree_up_to(const DevicePlanFacts& facts, Collective collective) {
  if (!facts.spans_hosts) return kTreeUpTo;
  const auto ranks = static_cast<std::uint64_t>(facts.ranks);
  if (collective == Collective::kAllReduce) return kTreeUpToOfRank * ranks;
  return std::max(kLeastTreeUpTo, ranks > 64 ? kRootedTreeUpToOfRank * (ranks - 64) : 0);
}
constexpr std::uint64_t kBytesPerThread = 64;

bool has_ring(Collective which) {
  return find_row(Algorithm::kRing, which, Where::kGpu) != nullptr;
}
// A root with many neighbours in the trees reduces along the ring.
bool trees_take(const DevicePlanFacts& facts, int root) {
  if (!facts.permuted) return hung_tree_takes(root, facts.ranks);
  return root < 64 && (facts.tree_roots >> root & 1) != 0;
}
bool has_tree(const DevicePlanFacts& facts, const CallRecord& record) {
  const AlgorithmRow* const row = find_row(Algorithm::kTree, record.collective, Where::kGpu);
  return row != nullptr && (row->roots == Roots::kAny || trees_take(facts, record.root));
}

std::uint64_t bytes_of(const CallRecord& record) { return record.count * size_of(record.type); }

// Sums whose order must be the tree's.
bool is_ordered(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.reproducible && reduces(record.collective);
}

bool allows(const DevicePlanFacts& facts, const CallRecord& record, Algorithm algorithm) {
  return facts.algorithms.allows(record.collective, algorithm) &&
         !((record.flags >> static_cast<int>(algorithm)) & 1);
}

}  // namespace

bool allows_direct(const DevicePlanFacts& facts, const CallRecord& record) {
  // Copies between devices that do not reach each other are the driver's; sums have nobody.
  return (facts.all_reach || !reduces(record.collective)) &&
         (allows(facts, record, Algorithm::kOneShot) ||
          allows(facts, record, Algorithm::kTwoShot) || allows(facts, record, Algorithm::kDirect));
}

namespace {

// One-shot all-reduce and all-gather, over lines of LL.
bool may_ll_push(const DevicePlanFacts& facts, const CallRecord& record) {
  if (!facts.may_ll_push || (facts.protocols & bit_of(Protocol::kLL)) == 0) return false;
  if (record.collective == Collective::kAllReduce)
    return allows(facts, record, Algorithm::kOneShot);
  return record.collective == Collective::kAllGather && allows(facts, record, Algorithm::kDirect);
}
// Every part reduced by one device that reads all and writes all; the others are direct, too.
bool allows_met(const DevicePlanFacts& facts, const CallRecord& record) {
  // A barrier is no kernel: one stream waits for all others.
  if (record.collective == Collective::kBarrier) return false;
  if (record.collective == Collective::kAllReduce)
    return allows(facts, record, Algorithm::kTwoShot);
  return !has_ring(record.collective) || allows(facts, record, Algorithm::kDirect);
}

bool has_multicast(Collective which) {
  return std::find(std::begin(kMulticastCollectives), std::end(kMulticastCollectives), which) !=
         std::end(kMulticastCollectives);
}
// Sums by a switch come in no order, and only where they have reduce.h's bits.
bool may_multicast(const DevicePlanFacts& facts, const CallRecord& record) {
  if (!facts.multicast || facts.reproducible || !has_multicast(record.collective) ||
      !allows(facts, record, Algorithm::kNvls))
    return false;
  return !reduces(record.collective) || cuda::multicast_sums(record.type, record.op);
}

DevicePlan multicast_plan(const DevicePlanFacts& facts, const CallRecord& record) {
  const std::uint64_t width = size_of(record.type), bytes = record.count * width;
  const int most = std::clamp(facts.most_channels, 1, cuda::shapes::kMulticastCtas);
  DevicePlan plan;
  plan.algorithm = Algorithm::kNvls;
  plan.channels = static_cast<int>(std::clamp<std::uint64_t>(bytes / kBytesPerMulticastCta, 1,
                                                             static_cast<std::uint64_t>(most)));
  plan.grain = static_cast<std::uint32_t>(kLineBytes / width);
  plan.threads = cuda::kMulticastThreads;
  const std::uint64_t blocks =
      record.collective == Collective::kAllReduce ? 1 : static_cast<std::uint64_t>(facts.ranks);
  const std::uint64_t of_cta = bytes / static_cast<std::uint64_t>(plan.channels);
  const std::uint64_t least = kLeastMulticastRound / blocks;
  const std::uint64_t wanted = std::max(of_cta / kMulticastRounds, least) / width;
  plan.per_round = std::min((wanted + plan.grain - 1) / plan.grain * plan.grain,
                            cuda::multicast_round(blocks, width));
  return plan;
}

bool may_meet(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.may_meet && allows_met(facts, record);
}
// On staging. Factors of PreMulSum are known to their own process only.
bool may_share(const DevicePlanFacts& facts, const CallRecord& record) {
  const bool one_block = record.collective == Collective::kAllReduce ||
                         record.collective == Collective::kReduce ||
                         record.collective == Collective::kBroadcast;
  const std::uint64_t blocks = one_block ? 1 : static_cast<std::uint64_t>(facts.ranks);
  return facts.shared_bytes > 0 && record.op != RedOp::kPreMulSum &&
         record.count <= facts.shared_bytes / size_of(record.type) / blocks &&
         allows_met(facts, record);
}

// The same without staging, of any size.
bool may_share_buffers(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.shared_bytes > 0 && record.op != RedOp::kPreMulSum && allows_met(facts, record);
}
bool may_share_windows(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.in_windows && may_share_buffers(facts, record);
}

DevicePlan met_plan(const DevicePlanFacts&, const CallRecord& record) {
  DevicePlan plan;
  plan.algorithm =
      record.collective == Collective::kAllReduce ? Algorithm::kTwoShot : Algorithm::kDirect;
  return plan;
}

DevicePlan ll_push_plan(const DevicePlanFacts& facts, const CallRecord& record) {
  constexpr std::uint64_t kWarp = 32;
  const std::uint64_t width = size_of(record.type), bytes = record.count * width;
  DevicePlan plan;
  plan.protocol = Protocol::kLL;
  plan.algorithm =
      record.collective == Collective::kAllReduce ? Algorithm::kOneShot : Algorithm::kDirect;
  const auto most =
      static_cast<std::uint64_t>(std::clamp(facts.most_channels, 1, cuda::kLLPushCtas));
  const std::uint64_t ctas = std::clamp<std::uint64_t>(bytes / kBytesPerLLPushCta, 1, most);
  plan.channels = static_cast<int>(ctas);
  plan.grain = static_cast<std::uint32_t>(kLineBytes / width);
  plan.per_round = cuda::kLLPushLines * cuda::kLineData / width;
  // A warp more than there are lines for, which tells the hosts.
  const std::uint64_t lines = bytes / ctas / cuda::kLineData;
  plan.threads = static_cast<unsigned>(
      std::min<std::uint64_t>((lines + kWarp) / kWarp * kWarp + kWarp, cuda::kLLPushThreads));
  return plan;
}

Protocol protocol_for(std::uint8_t allowed, std::uint64_t bytes) {
  const auto allows = [&](Protocol protocol) { return (allowed & bit_of(protocol)) != 0; };
  if (allows(Protocol::kLL) && bytes <= kLLUpTo) return Protocol::kLL;
  if (allows(Protocol::kLL128) && bytes <= kLL128UpTo) return Protocol::kLL128;
  if (allows(Protocol::kSimple)) return Protocol::kSimple;
  return allows(Protocol::kLL128) ? Protocol::kLL128 : Protocol::kLL;
}

// Threads of a CTA whose verbs move so many bytes.
unsigned threads_for(const CallRecord& record, std::uint64_t chunk_bytes, int groups) {
  constexpr unsigned kWarp = 32, kService = cuda::kServiceWarps * kWarp;
  const auto all = static_cast<unsigned>(reduces(record.collective)
                                             ? cuda::connected_threads(record.type, record.op)
                                             : cuda::kConnectedThreads);
  const std::uint64_t most = all / static_cast<unsigned>(groups) - kService;
  const std::uint64_t wanted = (chunk_bytes / kBytesPerThread + kWarp - 1) / kWarp * kWarp;
  const auto workers = std::clamp<std::uint64_t>(wanted, kWarp, most / kWarp * kWarp);
  return static_cast<unsigned>(groups) * (kService + static_cast<unsigned>(workers));
}

bool has_room(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.most_channels > 0 && has_ring(record.collective) && !is_ordered(facts, record);
}
bool may_ring(const DevicePlanFacts& facts, const CallRecord& record) {
  return has_room(facts, record) && allows(facts, record, Algorithm::kRing);
}
bool may_tree(const DevicePlanFacts& facts, const CallRecord& record) {
  return has_room(facts, record) && allows(facts, record, Algorithm::kTree) &&
         has_tree(facts, record);
}
bool may_connect(const DevicePlanFacts& facts, const CallRecord& record) {
  return may_ring(facts, record) || may_tree(facts, record);
}

DevicePlan connected_plan(const DevicePlanFacts& facts, const CallRecord& record) {
  const std::uint64_t width = size_of(record.type), bytes = bytes_of(record);
  DevicePlan plan;
  plan.algorithm = may_tree(facts, record) && (!may_ring(facts, record) ||
                                               bytes <= tree_up_to(facts, record.collective))
                       ? Algorithm::kTree
                       : Algorithm::kRing;
  plan.protocol = protocol_for(facts.protocols, bytes);
  plan.bulk = facts.bulk && plan.protocol == Protocol::kSimple && !reduces(record.collective);
  const std::uint64_t worth = kBytesPerChannel[static_cast<int>(plan.protocol)];
  plan.channels = static_cast<int>(
      std::clamp<std::uint64_t>(bytes / worth, static_cast<std::uint64_t>(facts.fewest_channels),
                                static_cast<std::uint64_t>(facts.most_channels)));
  plan.groups =
      plan.algorithm == Algorithm::kTree && record.collective == Collective::kAllReduce ? 2 : 1;

  const std::uint64_t grain = kLineBytes / width;
  plan.grain = static_cast<std::uint32_t>(grain);
  const std::uint64_t whole = cuda::slot_data_of(plan.protocol, facts.slot_bytes);
  const std::uint64_t of_channel = bytes / static_cast<std::uint64_t>(plan.channels);
  // A round of the ring is a chunk for every rank, one of the trees a chunk for each of the two.
  const Fill fill = find_row(plan.algorithm, record.collective, Where::kGpu)->fill;
  const bool circles = fill == Fill::kPartEach;
  const auto parts = static_cast<std::uint64_t>(slots_of(fill, facts.ranks));
  std::uint64_t chunk = whole;
  if (!circles)
    chunk =
        std::clamp(of_channel / kChunksOfAChain / parts, std::min(kSmallestChunk, whole), whole);
  const std::uint64_t elements = std::max<std::uint64_t>(chunk / width / grain * grain, grain);
  const bool slices = circles && plan.protocol == Protocol::kSimple;
  plan.slice = elements;
  plan.per_round = elements * parts * (slices ? cuda::shapes::kSimpleSlices : 1);
  plan.threads = threads_for(record, std::min(elements * width, of_channel / parts), plan.groups);
  // Worth its barrier and its launches where staging has no room.
  plan.in_place = may_share_buffers(facts, record) && !may_share(facts, record);
  return plan;
}

bool is_direct(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.ranks == 1 || !has_ring(record.collective) || allows_direct(facts, record);
}

bool may_compose(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.composes && has_ring(record.collective) &&
         (!facts.all_reach || bytes_of(record) > kLedUpTo);
}

bool may_go_direct(const DevicePlanFacts& facts, const CallRecord& record) {
  return !facts.processes && is_direct(facts, record);
}
bool may_be_led(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.processes && is_direct(facts, record);
}
// Places in an order, as long as no time of these ways has been measured: below kConnected's are
// first choices for calls like this one, above it what is left where neither ring nor tree may run.
double place(bool first, double high, double low) { return first ? high : low; }
double second_place(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) { return 25; }
double message_place(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) { return 35; }
double connected_place(const DevicePlanFacts&, const CallRecord&, const DevicePlan&) { return 50; }

double direct_place(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan&) {
  if (facts.ranks == 1) return 1;
  return place(!has_ring(record.collective) || facts.devices == 1 || is_ordered(facts, record), 40,
               90);
}

bool may_be_messages(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.messages &&
         (record.collective == Collective::kGather || record.collective == Collective::kScatter ||
          record.collective == Collective::kAllToAll);
}

// What copies alone do; a rank that is alone sums by copies, too.
bool may_use_engines(const DevicePlanFacts& facts, const CallRecord& record) {
  if (!facts.copy_engines || facts.processes || record.collective == Collective::kBarrier)
    return false;
  return !reduces(record.collective) || (facts.ranks == 1 && record.op != RedOp::kPreMulSum);
}

// There is nothing more to say.
DevicePlan plain_plan(const DevicePlanFacts&, const CallRecord&) { return {}; }

double ll_push_place(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan&) {
  const std::uint64_t bytes = bytes_of(record);
  const std::uint64_t to_all = bytes * static_cast<std::uint64_t>(facts.ranks - 1);
  return place(bytes <= kLLPushUpTo || (!may_meet(facts, record) && to_all <= kLLPushToAllUpTo), 20,
               80);
}
double met_place(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan&) {
  return place(
      is_ordered(facts, record) || bytes_of(record) <= kMeetUpTo || !has_ring(record.collective),
      25, 60);
}
double shared_place(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan&) {
  return place(
      is_ordered(facts, record) || bytes_of(record) > kShareFrom || !has_ring(record.collective),
      30, 70);
}
constexpr DeviceStrategyRow kStrategies[] = {
    {Strategy::kCopyEngines, may_use_engines, nullptr, plain_plan, "copies",
     device_reasons::engines, nullptr},
    {Strategy::kMulticast, may_multicast, nullptr, multicast_plan, nullptr,
     device_reasons::multicast, device_reasons::multicast_rounds},
    {Strategy::kComposed, may_compose, nullptr, plain_plan, "composed", device_reasons::composed,
     nullptr},
    {Strategy::kLLPush, may_ll_push, ll_push_place, ll_push_plan, nullptr, device_reasons::ll_push,
     device_reasons::rounds},
    {Strategy::kMet, may_meet, met_place, met_plan, nullptr, device_reasons::met, nullptr},
    {Strategy::kShared, may_share, shared_place, met_plan, nullptr, device_reasons::met, nullptr},
    {Strategy::kWindows, may_share_windows, second_place, met_plan, nullptr, device_reasons::met,
     nullptr},
    {Strategy::kMessages, may_be_messages, message_place, plain_plan, "messages",
     device_reasons::messages, nullptr},
    {Strategy::kDirect, may_go_direct, direct_place, plain_plan, nullptr, device_reasons::direct,
     nullptr},
    {Strategy::kLed, may_be_led, direct_place, plain_plan, nullptr, device_reasons::led, nullptr},
    {Strategy::kConnected, may_connect, connected_place, connected_plan, nullptr,
     device_reasons::connected, device_reasons::rounds},
};

}  // namespace

std::span<const DeviceStrategyRow> device_strategies() { return kStrategies; }

}  // namespace rondo::gpu
