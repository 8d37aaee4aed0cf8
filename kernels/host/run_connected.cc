#include "kernels/host/run_connected.h"

#include "kernels/algorithms/recursive.h"
#include "kernels/algorithms/tree.h"

namespace rondo::host {
namespace {

bool run_ring(ConnectedCall& call, const RingView& ring, const Rounds& rounds) {
  SlotPrimitives p(call, {ring.rank(1), -1}, {ring.rank(-1), -1}, 0);
  const int root = call.call.root;
  switch (call.call.record.collective) {
    case Collective::kAllReduce:
    case Collective::kBarrier:  // of tokens
      return ring_all_reduce(p, ring, rounds), true;
    case Collective::kAllGather:
      return ring_all_gather(p, ring, rounds), true;
    case Collective::kReduceScatter:
      return ring_reduce_scatter(p, ring, rounds), true;
    case Collective::kBroadcast:
      return ring_broadcast(p, ring, root, rounds), true;
    case Collective::kReduce:
      return ring_reduce(p, ring, root, rounds), true;
    default:
      return false;
  }
}

bool run_tree(SlotLinks& links, Collective collective, int root, const Rounds& rounds) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBarrier:
      return tree_all_reduce(links, rounds), true;
    case Collective::kBroadcast:
      return tree_broadcast(links, root, rounds), true;
    case Collective::kReduce:
      return tree_reduce(links, root, rounds), true;
    default:
      return false;
  }
}

}  // namespace

bool run_connected(ConnectedCall& call, Algorithm algorithm, const RingView& ring,
                   const Rounds& rounds) {
  SlotLinks links(call);
  const Collective collective = call.call.record.collective;
  const bool sums = collective == Collective::kAllReduce || collective == Collective::kBarrier;
  bool known = false;
  if (algorithm == Algorithm::kRing) {
    known = run_ring(call, ring, rounds);
  } else if (algorithm == Algorithm::kTree) {
    known = run_tree(links, collective, call.call.root, rounds);
  } else if (algorithm == Algorithm::kRecursive && sums) {
    recursive_all_reduce(links, rounds);
    known = true;
  }
  return known && !call.failed;
}

}  // namespace rondo::host
