// SPDX-License-Identifier: Apache-2.0
#include "tests/support/system_calls.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

namespace rondo::test {
namespace {

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
constexpr char kAllow = 0, kBlock = 1;

thread_local volatile char selector = kAllow;
thread_local volatile long caught = -1;

#if defined(__x86_64__)
void on_system_call(int, siginfo_t* info, void* context) {
  selector = kAllow;
  caught = info->si_syscall;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = 0;
}
#endif

bool dispatch_here() {
#if defined(__x86_64__)
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  return prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &selector) == 0;
#else
  return false;
#endif
}

}  // namespace

bool SystemCallTrap::supported() { return dispatch_here(); }

void SystemCallTrap::begin() {
  dispatch_here();
  caught = -1;
  selector = kBlock;
}

long SystemCallTrap::end() {
  selector = kAllow;
  return caught;
}

bool is_waiting_call(long number) {
  return number == SYS_sched_yield || number == SYS_futex || number == SYS_membarrier ||
         number == SYS_poll || number == SYS_clock_gettime || number == SYS_sched_getaffinity ||
         number == SYS_sched_setaffinity;
}

}  // namespace rondo::test
