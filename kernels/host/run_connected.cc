// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/run_connected.h"

#include "kernels/algorithms/run_links.h"

namespace rondo::host {

bool run_connected(ConnectedCall& call, Algorithm algorithm, const RingView& ring,
                   const Rounds& rounds) {
  SlotLinks links(call);
  const Collective collective = call.call.record.collective;
  // A barrier is a sum of tokens.
  const Collective as = collective == Collective::kBarrier ? Collective::kAllReduce : collective;
  return run_links<Where::kHost>(links, ring, call.call.root, rounds, algorithm, as) &&
         !call.failed;
}

}  // namespace rondo::host
