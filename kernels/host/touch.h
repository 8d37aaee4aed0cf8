// Touches: a rank that reads or writes the buffers of its peers, and a peer that takes its buffer
// back, never do so at the same time.
//
// A rank that touches a buffer first announces that and then checks whether the peer has left
// (`faulted`). A rank that leaves first announces that and then checks who touches. So at least one
// of them sees the other. Cost: two stores.
#pragma once

#include "kernels/host/host_rank.h"
#include "kernels/host/pointers.h"

namespace rondo::host {

// While it lives, this rank says that it may be reading or writing buffers which peers expose.
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

// Waits until no peer is in a touch that it began before; asleep after a while. False where the
// communicator's await_touches() has given up on some.
bool outlast_touches(HostRank& rank);

}  // namespace rondo::host
