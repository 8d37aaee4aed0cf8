// SPDX-License-Identifier: Apache-2.0
// Touches: guarantee that a rank never accesses a peer's buffer after the peer has taken it back.
//
// A rank that accesses (touches) a buffer first announces that and then checks whether the peer has
// left (`faulted`). A rank that leaves first announces that and then checks which ranks touch. So
// at least one of the two sees the other. Cost: two stores.
#pragma once

#include "kernels/host/host_rank.h"
#include "kernels/host/pointers.h"

namespace rondo::host {

// During its lifetime, this rank announces that it may access buffers that peers expose.
class Touch {
 public:
  Touch(HostRank& rank, bool needed) : word_(rank.self().progress->touching), needed_(needed) {
    if (needed_) HostAtomics::store_seq_cst(word_, HostAtomics::load_relaxed(word_) + 1);
  }
  ~Touch() {
    if (needed_) HostAtomics::store_release(word_, HostAtomics::load_relaxed(word_) + 1);
  }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  std::uint32_t& word_;
  const bool needed_;
};

// Waits until every touch that peers had begun before the call has ended; sleeps after a while.
// False if the communicator's await_touches() has given up on some.
bool outlast_touches(HostRank& rank);

}  // namespace rondo::host
