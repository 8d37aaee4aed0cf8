#include "kernels/host/run_connected.h"

#include "kernels/algorithms/run_text.h"

namespace rondo::host {
namespace {

struct ConnectedText {
  SlotLinks& links;
  const RingView& ring;
  int root;
  const Rounds& rounds;

  static constexpr bool runs(const AlgorithmRow& row) {
    return row.verbs == Verbs::kPrimitives && row.runs(Where::kHost);
  }
};

}  // namespace

bool run_connected(ConnectedCall& call, Algorithm algorithm, const RingView& ring,
                   const Rounds& rounds) {
  SlotLinks links(call);
  ConnectedText text{links, ring, call.call.root, rounds};
  const Collective collective = call.call.record.collective;
  // A barrier is a sum of tokens.
  const Collective as = collective == Collective::kBarrier ? Collective::kAllReduce : collective;
  return run_text(text, algorithm, as) && !call.failed;
}

}  // namespace rondo::host
