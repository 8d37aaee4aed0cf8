// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/device_strategies.h"

#include <algorithm>
#include <cassert>

#include "kernels/algorithms/rerooted_tree.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/ll_push_args.h"
#include "kernels/cuda/multicast_args.h"

namespace rondo::gpu {
namespace {

using cuda::Protocol;

// Not decided by the cost model: a chain's data is cut into kChunksOfAChain chunks of at least
// kSmallestChunk bytes, so that its links work at the same time. GPU memory, not the wires, needs
// long chunks.
constexpr std::uint64_t kSmallestChunk = 8 << 10;
constexpr std::uint64_t kChunksOfAChain = 8;
// Multicast runs only on request. One more CTA per kBytesPerMulticastCta bytes of a block. A CTA's
// part is cut into kMulticastRounds rounds, so that they overlap, each of at least
// kLeastMulticastRound bytes over all blocks.
constexpr std::uint64_t kBytesPerMulticastCta = 16 << 10;
constexpr std::uint64_t kMulticastRounds = 4;
constexpr std::uint64_t kLeastMulticastRound = 32 << 10;

bool has_ring(Collective which) {
  return find_row(Algorithm::kRing, which, Where::kGpu) != nullptr;
}
bool has_tree(Collective which) {
  return find_row(Algorithm::kTree, which, Where::kGpu) != nullptr;
}

std::uint64_t bytes_of(const CallRecord& record) { return record.count * size_of(record.type); }

// True for sums that must be in the tree's order.
bool is_ordered(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.reproducible && reduces(record.collective);
}

bool allows(const DevicePlanFacts& facts, const CallRecord& record, Algorithm algorithm) {
  return facts.algorithms.allows(record.collective, algorithm) &&
         !((record.excluded >> static_cast<int>(algorithm)) & 1);
}

}  // namespace

bool has_few_neighbours(const DevicePlanFacts& facts, int root) {
  if (!facts.permuted) return rerooted_tree_takes(root, facts.ranks);
  return root >= 0 && root < 64 && (facts.tree_roots >> root & 1) != 0;
}
bool both_trees_take(const DevicePlanFacts& facts, const CallRecord& record) {
  const AlgorithmRow* const row = find_row(Algorithm::kTree, record.collective, Where::kGpu);
  return row == nullptr || row->roots == Roots::kAny || has_few_neighbours(facts, record.root);
}

bool allows_direct(const DevicePlanFacts& facts, const CallRecord& record) {
  // A kernel on one device sums only what that device reaches.
  return (facts.all_reach || !reduces(record.collective)) &&
         (allows(facts, record, Algorithm::kOneShot) ||
          allows(facts, record, Algorithm::kTwoShot) || allows(facts, record, Algorithm::kDirect));
}

namespace {

// One-shot all-reduce and all-gather, by lines of LL.
bool may_ll_push(const DevicePlanFacts& facts, const CallRecord& record) {
  if (!facts.may_ll_push || (facts.protocols & bit_of(Protocol::kLL)) == 0) return false;
  if (record.collective == Collective::kAllReduce)
    return cuda::ll_push_sums(facts.ranks, record.type, record.op) &&
           allows(facts, record, Algorithm::kOneShot);
  return record.collective == Collective::kAllGather && allows(facts, record, Algorithm::kDirect);
}
// Two-shot: one device reads all inputs of a part, reduces it and writes all outputs.
bool allows_barriers(const DevicePlanFacts& facts, const CallRecord& record) {
  // A barrier needs no kernel: one stream waits for all others.
  if (record.collective == Collective::kBarrier) return false;
  if (record.collective == Collective::kAllReduce)
    return allows(facts, record, Algorithm::kTwoShot);
  return !has_ring(record.collective) || allows(facts, record, Algorithm::kDirect);
}

bool has_multicast(Collective which) {
  return std::find(std::begin(kMulticastCollectives), std::end(kMulticastCollectives), which) !=
         std::end(kMulticastCollectives);
}
// A switch sums in no fixed order; allowed only if the sums have the same bits as reduce.h.
bool may_multicast(const DevicePlanFacts& facts, const CallRecord& record) {
  if (!facts.multicast || facts.reproducible || !has_multicast(record.collective) ||
      !allows(facts, record, Algorithm::kNvls))
    return false;
  return !reduces(record.collective) || cuda::multicast_sums(record.type, record.op);
}

DevicePlan multicast_plan(const DevicePlanFacts& facts, const CallRecord& record) {
  const std::uint64_t width = size_of(record.type), bytes = record.count * width;
  const int maximum = std::clamp(facts.max_channels, 1, cuda::shapes::kMulticastCtas);
  DevicePlan plan;
  plan.algorithm = Algorithm::kNvls;
  plan.channels = static_cast<int>(std::clamp<std::uint64_t>(bytes / kBytesPerMulticastCta, 1,
                                                             static_cast<std::uint64_t>(maximum)));
  plan.grain = static_cast<std::uint32_t>(kLineBytes / width);
  plan.threads = cuda::kMulticastThreads;
  const std::uint64_t blocks =
      record.collective == Collective::kAllReduce ? 1 : static_cast<std::uint64_t>(facts.ranks);
  const std::uint64_t of_cta = bytes / static_cast<std::uint64_t>(plan.channels);
  const std::uint64_t lowest = kLeastMulticastRound / blocks;
  const std::uint64_t wanted = std::max(of_cta / kMulticastRounds, lowest) / width;
  plan.per_round = std::min((wanted + plan.grain - 1) / plan.grain * plan.grain,
                            cuda::multicast_round(blocks, width));
  assert(plan.per_round > 0);
  return plan;
}

// More than kArgumentDevices share only sums that read vectors of all inputs; others would wait for
// one element after another.
bool sums_of_many(const DevicePlanFacts& facts, const CallRecord& record) {
  if (!reduces(record.collective) || facts.ranks <= cuda::kArgumentDevices) return true;
  return cuda::sums_in_groups(record.type, record.op);
}

// On staging. PreMulSum is excluded: only their own process knows its factors. Long data go along
// connections, which have no tree order.
bool may_share(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.shared_bytes > 0 && record.op != RedOp::kPreMulSum &&
         (is_ordered(facts, record) ||
          record.count <= staged_elements(facts.shared_bytes, record, facts.ranks)) &&
         sums_of_many(facts, record) && allows_barriers(facts, record);
}

// The same in symmetric windows, for any size. All copies of a call have to fit into one launch.
bool may_share_windows(const DevicePlanFacts& facts, const CallRecord& record) {
  const int blocks = facts.ranks * facts.ranks;
  if ((record.collective == Collective::kAllToAll && blocks > cuda::kMaxCopies) ||
      (record.collective == Collective::kAllGather && blocks > cuda::kMaxCopyTargets))
    return false;
  return facts.in_windows && facts.shared_bytes > 0 && record.op != RedOp::kPreMulSum &&
         sums_of_many(facts, record) && allows_barriers(facts, record);
}

DevicePlan barrier_plan(const DevicePlanFacts&, const CallRecord& record) {
  DevicePlan plan;
  plan.algorithm =
      record.collective == Collective::kAllReduce ? Algorithm::kTwoShot : Algorithm::kDirect;
  return plan;
}

// The fastest plan with `minimum` to `maximum` channels, by factors of two, and the same rounded
// down to equally many for each of `rings`. work: the row's.
template <class PlanOf>
DevicePlan with_channels(const DevicePlanFacts& facts, const CallRecord& record, int minimum,
                         int maximum, int rings, NsAfterLaunch work, const PlanOf& plan_of) {
  assert(minimum > 0 && maximum > 0 && rings > 0);
  int channels = std::min(minimum, maximum);
  DevicePlan best = plan_of(channels);
  double lowest = device_ns(facts, record, best, work);
  const auto try_channels = [&](int number) {
    const DevicePlan next = plan_of(number);
    const double ns = device_ns(facts, record, next, work);
    if (ns >= lowest) return;
    best = next;
    lowest = ns;
  };
  while (channels < maximum) {
    channels = std::min(2 * channels, maximum);
    const int even = channels - channels % rings;
    if (even != channels && even > std::max(minimum, channels / 2)) try_channels(even);
    try_channels(channels);
  }
  return best;
}

DevicePlan ll_push_plan(const DevicePlanFacts& facts, const CallRecord& record) {
  constexpr std::uint64_t kWarp = 32;
  const std::uint64_t width = size_of(record.type), bytes = record.count * width;
  const auto plan_of = [&](int channels) {
    DevicePlan plan;
    plan.strategy = Strategy::kLLPush;
    plan.protocol = Protocol::kLL;
    plan.algorithm =
        record.collective == Collective::kAllReduce ? Algorithm::kOneShot : Algorithm::kDirect;
    plan.channels = channels;
    plan.grain = static_cast<std::uint32_t>(kLineBytes / width);
    plan.per_round = cuda::kLLPushLines * cuda::kLineData / width;
    // One warp more than the lines need: it reports to the hosts.
    const std::uint64_t lines = bytes / static_cast<std::uint64_t>(channels) / cuda::kLineData;
    plan.threads = static_cast<unsigned>(
        std::min<std::uint64_t>((lines + kWarp) / kWarp * kWarp + kWarp, cuda::kLLPushThreads));
    return plan;
  };
  const int maximum = std::clamp(facts.max_channels, 1, cuda::kLLPushCtas);
  return with_channels(facts, record, 1, maximum, /*rings=*/1, ll_push_ns, plan_of);
}

// The warps of a group that move data: at most `maximum`; each moves `batch` bytes before it waits.
struct Workers {
  Workers(const CallRecord& record, Protocol protocol, int groups_of_cta)
      : groups(static_cast<unsigned>(groups_of_cta)) {
    const bool sums = reduces(record.collective) && cuda::has_sum_kernel(record.type, record.op);
    const auto threads = static_cast<unsigned>(reduces(record.collective)
                                                   ? cuda::connected_threads(record.type, record.op)
                                                   : cuda::kConnectedThreads);
    maximum = threads / groups / kWarp - cuda::kServiceWarps;
    batch = cuda::batch_of_warp(protocol, sums, size_of(record.type));
    assert(maximum > 0 && batch > 0);
  }
  std::uint64_t batches() const { return maximum * batch; }
  // Threads of a CTA whose jobs have `job_bytes` bytes.
  unsigned threads_for(std::uint64_t job_bytes) const {
    const auto warps = std::clamp<std::uint64_t>((job_bytes + batch - 1) / batch, 1, maximum);
    return groups * kWarp * (cuda::kServiceWarps + static_cast<unsigned>(warps));
  }

  static constexpr unsigned kWarp = 32;
  unsigned groups;
  std::uint64_t maximum, batch;
};

bool has_room(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.max_channels > 0 && has_ring(record.collective) && !is_ordered(facts, record);
}
template <Algorithm algorithm, Protocol protocol>
bool may_connect(const DevicePlanFacts& facts, const CallRecord& record) {
  return has_room(facts, record) && allows(facts, record, algorithm) &&
         (facts.protocols & bit_of(protocol)) != 0 &&
         (algorithm != Algorithm::kTree || has_tree(record.collective));
}

// Jobs of a ring's chunk; each uses a slot.
constexpr std::uint64_t jobs_of_chunk(Protocol protocol) {
  return static_cast<std::uint64_t>(protocol == Protocol::kSimple ? cuda::shapes::kSimpleSlices
                                                                  : cuda::shapes::kLineSlices);
}
// Bytes of the longest part if all are divided among channels, and there into parts, by lines.
std::uint64_t parts_of(std::uint64_t bytes, std::uint64_t channels, std::uint64_t parts) {
  assert(channels > 0 && parts > 0);
  const auto share = [](std::uint64_t all, std::uint64_t n) { return (all + n - 1) / n; };
  return share(share(share(bytes, kLineBytes), channels), parts) * kLineBytes;
}

int rings_of(const DevicePlanFacts& facts) {
  return facts.wires.rings > 0 ? facts.wires.rings : std::max(facts.rings, 1);
}

DevicePlan connected_on(int channels, Algorithm algorithm, Protocol protocol,
                        const DevicePlanFacts& facts, const CallRecord& record) {
  assert(channels > 0 && facts.slots > 0 && facts.slot_bytes > 0);
  const std::uint64_t width = size_of(record.type);
  const bool all_reduces = record.collective == Collective::kAllReduce;
  DevicePlan plan;
  plan.strategy = Strategy::kConnected;
  plan.algorithm = algorithm;
  plan.protocol = protocol;
  plan.channels = channels;
  plan.groups = algorithm == Algorithm::kTree && all_reduces ? 2 : 1;

  const std::uint64_t grain = kLineBytes / width;
  plan.grain = static_cast<std::uint32_t>(grain);
  const Workers workers(record, protocol, plan.groups);
  // The links of a chain wait for whole chunks, so these are shorter than a ring's slots.
  const AlgorithmRow& row = *find_row(algorithm, record.collective, Where::kGpu);
  const bool cycles = algorithm == Algorithm::kRing && row.min_slots > 1;
  const std::uint64_t slot =
      cuda::slot_data_of(protocol, cycles ? facts.slot_bytes_of(algorithm) : facts.slot_bytes);
  // A job of lines is one batch: a second one would wait for all loads of the first.
  const std::uint64_t whole =
      protocol == Protocol::kSimple ? slot : std::min(slot, workers.batches());
  // Over a network paths are long. Both trees of each ring have channels, so that no port has more
  // to carry than another.
  plan.one_tree = algorithm == Algorithm::kTree &&
                  ((facts.crosses() && channels % (2 * rings_of(facts)) == 0) ||
                   !both_trees_take(facts, record));
  // A round of a ring is one chunk per rank or block; a round of the trees is one chunk per tree.
  const auto parts =
      plan.one_tree ? 1 : static_cast<std::uint64_t>(slots_of(row.fill, facts.ranks));
  const std::uint64_t part =
      parts_of(bytes_of(record), static_cast<std::uint64_t>(channels), parts);
  // The jobs of a chunk overlap: one is moved while another is in flight. In rings all ranks send
  // at once, so two jobs do; elsewhere many chunks keep all links busy.
  const std::uint64_t jobs = cycles ? jobs_of_chunk(protocol) : 1;
  const std::uint64_t job = std::clamp(parts_of(part, 1, cycles ? jobs : kChunksOfAChain),
                                       std::min(kSmallestChunk, whole), whole);
  const std::uint64_t elements = std::max<std::uint64_t>(job / width / grain * grain, grain);
  plan.slice = elements;
  plan.per_round = elements * parts * jobs;
  plan.threads = workers.threads_for(std::min(elements * width, part));
  assert(plan.per_round > 0 && plan.per_round % plan.grain == 0 && elements * width <= slot);
  assert(!cycles || static_cast<std::uint64_t>(facts.slots) >= 2 * jobs);
  return plan;
}

template <Algorithm algorithm, Protocol protocol>
DevicePlan connected_plan(const DevicePlanFacts& facts, const CallRecord& record) {
  return with_channels(
      facts, record, facts.min_channels, facts.max_channels, rings_of(facts), connected_ns,
      [&](int channels) { return connected_on(channels, algorithm, protocol, facts, record); });
}

bool is_direct(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.ranks == 1 || !has_ring(record.collective) || allows_direct(facts, record);
}

bool may_go_direct(const DevicePlanFacts& facts, const CallRecord& record) {
  return !facts.processes && is_direct(facts, record);
}
bool may_use_leader(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.processes && is_direct(facts, record);
}
double predicted(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan) {
  return device_ns(facts, record, plan, row_of(plan).work);
}
// Fallbacks without a cost model. Used only when nothing else applies: point-to-point messages
// first, because no prior exists for their slots, then one device's kernel for all others, whose
// streams wait for it.
double last_resort(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan) {
  constexpr double kLastResortNs = 1e15;
  const bool messages = plan.strategy == Strategy::kMessages, alone = facts.devices == 1;
  return predicted(facts, record, plan) + (messages ? 1 : alone ? 0 : 2) * kLastResortNs;
}

bool may_be_messages(const DevicePlanFacts& facts, const CallRecord& record) {
  return facts.messages &&
         (record.collective == Collective::kGather || record.collective == Collective::kScatter ||
          record.collective == Collective::kAllToAll);
}

// Calls that only copy. With one rank, sums are copies, too. Processes meet as for shared kernels.
bool may_use_engines(const DevicePlanFacts& facts, const CallRecord& record) {
  if (!facts.copy_engines || record.collective == Collective::kBarrier) return false;
  if (facts.processes && facts.shared_bytes == 0) return false;
  return !reduces(record.collective) || (facts.ranks == 1 && record.op != RedOp::kPreMulSum);
}

DevicePlan plain_plan(const DevicePlanFacts&, const CallRecord&) { return {}; }

template <Algorithm algorithm, Protocol protocol>
constexpr DeviceStrategyRow connected_row() {
  constexpr DeviceTraits kTraits(Runner::kEveryDevice, Tuning::kOffered, Simulation::kConnected);
  return {Strategy::kConnected,
          may_connect<algorithm, protocol>,
          predicted,
          connected_plan<algorithm, protocol>,
          nullptr,
          device_reasons::connected,
          device_reasons::rounds,
          connected_ns,
          kTraits};
}

// Rows without a cost run on request, or are the only rows for their calls.
constexpr DeviceStrategyRow kStrategies[] = {
    {Strategy::kCopyEngines, may_use_engines, nullptr, plain_plan, "copies",
     device_reasons::engines, nullptr, direct_ns, Runner::kCopyEngines},
    {Strategy::kMulticast, may_multicast, nullptr, multicast_plan, nullptr,
     device_reasons::multicast, device_reasons::multicast_rounds, multicast_ns,
     DeviceTraits(Runner::kEveryDevice, Tuning::kFixed, Simulation::kMulticast,
                  Windows::kMulticast)},
    {Strategy::kLLPush, may_ll_push, predicted, ll_push_plan, nullptr, device_reasons::ll_push,
     device_reasons::rounds, ll_push_ns,
     DeviceTraits(Runner::kEveryDevice, Tuning::kReplaceable, Simulation::kPush)},
    {Strategy::kWindows, may_share_windows, predicted, barrier_plan, nullptr,
     device_reasons::barrier, nullptr, in_place_ns,
     DeviceTraits(Runner::kEveryDevice, Tuning::kFixed, Simulation::kNone, Windows::kAll)},
    {Strategy::kShared, may_share, predicted, barrier_plan, nullptr, device_reasons::barrier,
     nullptr, staged_ns,
     DeviceTraits(Runner::kEveryDevice, Tuning::kReplaceable, Simulation::kStaged)},
    connected_row<Algorithm::kTree, Protocol::kLL>(),
    connected_row<Algorithm::kTree, Protocol::kLL128>(),
    connected_row<Algorithm::kTree, Protocol::kSimple>(),
    connected_row<Algorithm::kRing, Protocol::kLL>(),
    connected_row<Algorithm::kRing, Protocol::kLL128>(),
    connected_row<Algorithm::kRing, Protocol::kSimple>(),
    {Strategy::kMessages, may_be_messages, last_resort, plain_plan, "messages",
     device_reasons::messages, nullptr, messages_ns,
     DeviceTraits(Runner::kMessages, Tuning::kFixed, Simulation::kMessages)},
    {Strategy::kDirect, may_go_direct, last_resort, plain_plan, nullptr, device_reasons::direct,
     nullptr, direct_ns, Runner::kOneDevice},
    {Strategy::kLeader, may_use_leader, last_resort, plain_plan, nullptr, device_reasons::leader,
     nullptr, direct_ns, Runner::kLeader},
};

}  // namespace

std::span<const DeviceStrategyRow> device_strategies() { return kStrategies; }

}  // namespace rondo::gpu
