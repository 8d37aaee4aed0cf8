// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/host_executor.h"

#include <cassert>
#include <type_traits>

#include "kernels/algorithms/run_algorithm.h"
#include "kernels/algorithms/run_links.h"
#include "kernels/host/line_memory.h"
#include "kernels/host/segmented_memory.h"
#include "kernels/host/staged_memory.h"

namespace rondo::host {
namespace {

template <class Memory>
struct DirectAlgorithm {
  Memory& memory;
  int root;
  const Rounds& rounds;

  static constexpr bool runs(const AlgorithmRow& row) {
    return row.verbs == Verbs::kPeerMemory &&
           (row.fits_lines || !std::is_same_v<Memory, LineMemory>);
  }
};

template <class Memory>
bool run(Memory& memory, const HostCall& call, Algorithm algorithm, const Rounds& rounds) {
  DirectAlgorithm<Memory> text{memory, call.root, rounds};
  return run_algorithm(text, algorithm, call.record.collective) && !memory.failed();
}

// The host view: delivers nothing once the cross view has failed.
class RelayMemory : public StagedMemory {
 public:
  RelayMemory(HostRank& rank, const HostCall& call, const ConnectedCall& cross)
      : StagedMemory(rank, call), cross_(cross) {}

  void expose_kept(int slot, const Piece& piece) {
    if (cross_.failed) fail();
    StagedMemory::expose_kept(slot, piece);
  }
  void publish() {
    if (cross_.failed) fail();
    StagedMemory::publish();
  }

 private:
  const ConnectedCall& cross_;
};

static_assert(RelayingMemory<RelayMemory>);

// The cross view: connects this rank to its partners, one per host; the data is its own output or
// staging.
class RailLinks {
 public:
  RailLinks(const StagedMemory& host, ConnectedCall& shared, HostCall& call, const HostMap& map)
      : host_(host), shared_(shared), call_(call), map_(map), output_(call.output) {}

  int rank() const { return map_.host; }
  int size() const { return map_.hosts; }
  RailLinks& at(std::uint64_t begin) {
    call_.output = static_cast<std::byte*>(output_) + begin * size_of(call_.type);
    call_.input = call_.output;
    return *this;
  }
  RailLinks& in_slot(int slot) {
    call_.output = host_.own_slot(slot);
    call_.input = call_.output;
    return *this;
  }
  SlotPrimitives between(Peers from, Peers to, int channel) {
    if (host_.failed()) shared_.failed = true;
    return {shared_, on_rail(from), on_rail(to), channel};
  }
  template <class First, class Second>
  void roles(const First& first, const Second& second) {
    shared_.run_two(first, second);
  }

 private:
  Peers on_rail(Peers hosts) const {
    assert(hosts.first < map_.hosts && hosts.second < map_.hosts);
    const auto rank = [&](int h) { return h < 0 ? -1 : map_.rank(h, host_.rank()); };
    return {rank(hosts.first), rank(hosts.second)};
  }

  const StagedMemory& host_;
  ConnectedCall& shared_;
  HostCall& call_;
  const HostMap& map_;
  void* output_;
};

static_assert(FoldingLinks<RailLinks>);

struct ViewsAlgorithm {
  RelayMemory& host;
  RailLinks& cross;
  const HostMap& map;
  int root;
  const Rounds& rounds;
  std::uint64_t longest;

  static constexpr bool runs(const AlgorithmRow& row) { return row.verbs == Verbs::kViews; }
};

}  // namespace

bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, Carrier carrier,
                const Rounds& rounds) {
  assert(rank.size > 0 && call.root < rank.size);
  if (call.segments != nullptr) {
    SegmentedMemory memory(rank, call);
    return run(memory, call, algorithm, rounds);
  }
  if (carrier == Carrier::kStaging) {
    StagedMemory memory(rank, call);
    const bool ran = run(memory, call, algorithm, rounds);
    if (memory.failed()) memory.withdraw();
    return ran;
  }
  LineMemory memory(rank, call, carrier == Carrier::kLines);
  return run(memory, call, algorithm, rounds);
}

bool run_connected(ConnectedCall& call, Algorithm algorithm, const RingView& ring,
                   const Rounds& rounds) {
  SlotLinks links(call);
  const Collective collective = call.call.record.collective;
  // A barrier is a sum of tokens.
  const Collective as = collective == Collective::kBarrier ? Collective::kAllReduce : collective;
  return run_links<Where::kHost>(links, ring, call.call.root, rounds, algorithm, as) &&
         !call.failed;
}

bool run_hierarchical(HostRank& rank, const HostCall& call, ConnectedCall& cross,
                      HostCall& cross_call, const HostMap& map, const Rounds& rounds,
                      std::uint64_t longest) {
  assert(map.hosts > 1 && map.host >= 0 && map.host < map.hosts);
  assert(call.segments == nullptr);
  RelayMemory host(rank, call, cross);
  RailLinks links(host, cross, cross_call, map);
  ViewsAlgorithm text{host, links, map, call.root, rounds, longest};
  if (!run_algorithm(text, Algorithm::kHierarchical, call.record.collective)) return false;
  if (host.failed()) host.withdraw();
  return !host.failed() && !cross.failed;
}

}  // namespace rondo::host
