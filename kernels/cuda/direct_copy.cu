// SPDX-License-Identifier: Apache-2.0
// The direct copies: bytes of any type, with launch arguments or arguments in device memory, and
// through staging; the clearing of lines; the try of P2P; and meetings.
#include "kernels/cuda/clear_lines.h"
#include "kernels/cuda/direct.h"
#include "kernels/cuda/kernel_rows.h"
#include "kernels/cuda/meeting.h"
#include "kernels/cuda/p2p_probe.h"
#include "kernels/cuda/staged_copy.h"
#include "kernels/cuda/stored_args.h"

namespace rondo::cuda {

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
