// SPDX-License-Identifier: Apache-2.0
// The direct copies: bytes of any type, with launch arguments or arguments in device memory, and
// through staging; the clearing of lines; the try of P2P; and meetings.
#include "kernels/cuda/clear_lines.h"
#include "kernels/cuda/device_barrier.h"
#include "kernels/cuda/direct.h"
#include "kernels/cuda/kernel_rows.h"
#include "kernels/cuda/p2p_probe.h"
#include "kernels/cuda/staged_copy.h"
#include "kernels/cuda/stored_args.h"

namespace rondo::cuda {

// Meeting: the barrier of devices whose streams copy by copy engines, one launch before the copies
// and one behind them. One CTA; no data pass through it.
//
// Guarantees: those of device_barrier.h. Behind the first launch all devices have reached the call,
// so their buffers may be written; behind the second one all copies have arrived: a stream begins a
// kernel after the copies before it are over, and the kernel's release covers them. The two count
// as one launch of the call, begun in the first and over in the second. If a wait fails, the copies
// between them run nevertheless: a stream cannot leave them out. Cost: a launch and a barrier each.
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

const KernelEntry& row_of_copy() {
  static const KernelEntry row = entry_of<DirectCopy<>>("direct copy");
  return row;
}

const KernelEntry& row_of_stored_copy() {
  static const KernelEntry row = stored_entry_of<DirectCopy<true>>("stored copy");
  return row;
}

const KernelEntry& row_of_clear_lines() {
  static const KernelEntry row = entry_of<ClearLines>("clear lines");
  return row;
}

const KernelEntry& row_of_p2p_probe() {
  static const KernelEntry row = entry_of<P2pProbe>("P2P probe");
  return row;
}

const KernelEntry& row_of_meeting() {
  static const KernelEntry row = entry_of<Meeting>("meeting");
  return row;
}

const KernelEntry& row_of_staged_copy() {
  static const KernelEntry row = entry_of<StagedCopy>("staged copy");
  return row;
}

}  // namespace rondo::cuda
