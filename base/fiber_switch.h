// SPDX-License-Identifier: Apache-2.0
// FiberSwitch: reports a thread's stack switches to the sanitizers. Does nothing in other builds.
//
//   FiberSwitch s;  s.leave(target, ending);  <switch>;  on arrival: s.arrive();
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace rondo {

// A stack as the sanitizers know it.
struct FiberIdentity {
  const void* bottom = nullptr;
  std::size_t size = 0;
  void* tsan = nullptr;

  static FiberIdentity of_stack([[maybe_unused]] const void* bottom,
                                [[maybe_unused]] std::size_t size) {
    FiberIdentity identity{bottom, size, nullptr};
#if defined(__SANITIZE_THREAD__)
    identity.tsan = __tsan_create_fiber(0);
#endif
    return identity;
  }
  static FiberIdentity of_thread() {
    FiberIdentity identity;
#if defined(__SANITIZE_THREAD__)
    identity.tsan = __tsan_get_current_fiber();
#endif
    return identity;
  }
  void destroy() {
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(tsan);
#endif
  }
};

class FiberSwitch {
 public:
  // Call it before the switch. `ending`: the current stack is never entered again.
  void leave([[maybe_unused]] const FiberIdentity& to, [[maybe_unused]] bool ending) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ending ? nullptr : &fake_stack_, to.bottom, to.size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.tsan, 0);
#endif
  }
  // Call it first on the new stack. Stores the bounds of the previous stack in `from`.
  void arrive([[maybe_unused]] FiberIdentity* from) {
#if defined(__SANITIZE_ADDRESS__)
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
    if (from != nullptr) from->bottom = bottom, from->size = size;
#endif
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack_ = nullptr;
#endif
};

}  // namespace rondo
