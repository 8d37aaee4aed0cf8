// SPDX-License-Identifier: Apache-2.0
// Meeting: the barrier of devices whose streams copy by copy engines, one launch before the copies
// and one behind them. One CTA; no data pass through it.
//
// Guarantees: those of device_barrier.h. Behind the first launch all devices have reached the call,
// so their buffers may be written; behind the second one all copies have arrived: a stream begins a
// kernel after the copies before it are over, and the kernel's release covers them. The two count
// as one launch of the call, begun in the first and over in the second. If a wait fails, the copies
// between them run nevertheless: a stream cannot leave them out. Cost: a launch and a barrier each.
#pragma once

#include "kernels/cuda/device_barrier.h"

namespace rondo::cuda {

struct Meeting {
  using Args = MeetingArgs;
  static constexpr int kThreads = kDirectThreads;
  static constexpr int kCtas = kDirectCtas;

  static RONDO_FN void run(const Args& args) {
    if (args.begins)
      barrier_at_begin(args.barrier, args.barrier.call);
    else
      barrier_at_end(args.barrier, args.barrier.call);
  }
};

}  // namespace rondo::cuda
