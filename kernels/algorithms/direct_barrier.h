// Direct barrier: no rank leaves before every rank has entered.
//
// Traffic: one publication, one wait per peer. Order: none.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_barrier(P& p) {
  p.publish();
  wait_for_all(p);
  p.release();
}

}  // namespace rondo
