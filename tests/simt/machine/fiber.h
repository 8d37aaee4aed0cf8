// SPDX-License-Identifier: Apache-2.0
// Fiber: a function on its own stack that can suspend and resume; a GPU thread of the emulator.
//
// Guarantees: switches are annotated for ASan and TSan; a fiber runs on the thread that resumes it
// and must be resumed by one thread at a time; a fiber that never ends may be dropped (nothing on
// its stack is destroyed, so kernels must keep only trivially destructible values). Cost: about 20
// ns a switch; stacks (64 KiB, touched as needed, guard page below) are pooled.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <memory>

#include "base/fiber_switch.h"

namespace rondo::simt {

class FiberStack;

class Fiber {
 public:
  using Body = void (*)(void* argument);
  Fiber(Body body, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends or returns.
  void resume();
  // Called in the body: returns to the caller of resume().
  void suspend();
  bool ended() const { return ended_; }

 private:
  using Transfer = boost::context::detail::transfer_t;
  static void enter(Transfer from);

  Body body_;
  void* argument_;
  std::unique_ptr<FiberStack> stack_;  // from the first resume until the end
  boost::context::detail::fcontext_t inside_ = nullptr;
  boost::context::detail::fcontext_t outside_ = nullptr;
  FiberIdentity resumer_;
  FiberSwitch own_switch_, resumer_switch_;
  bool ended_ = false;
};

}  // namespace rondo::simt
