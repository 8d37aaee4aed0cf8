// SPDX-License-Identifier: Apache-2.0
// Catches the first system call of this thread between begin() and end(). It uses the kernel's
// Syscall User Dispatch (Linux 5.11, x86-64).
//
//   if (!SystemCallTrap::supported()) GTEST_SKIP();
//   SystemCallTrap trap;  trap.begin();  work();  EXPECT_EQ(trap.end(), -1);
// The caught call is not made: it returns 0 to its caller. Later calls are made.
#pragma once

namespace rondo::test {

class SystemCallTrap {
 public:
  static bool supported();
  void begin();
  long end();  // the number of the first system call since begin(), or -1
};

// True for calls that only wait, or check after a wait. They occur when the peer is late.
bool is_waiting_call(long number);

}  // namespace rondo::test
