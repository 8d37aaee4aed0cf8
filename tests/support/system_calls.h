// Catches the first system call of this thread between begin() and end(), by the kernel's own
// dispatch of system calls to the program (Linux 5.11, x86-64).
//
//   if (!SystemCallTrap::supported()) GTEST_SKIP();
//   SystemCallTrap trap;  trap.begin();  work();  EXPECT_EQ(trap.end(), -1);
// The call that is caught is not made: it returns 0 to its caller. Those after it are made.
#pragma once

namespace rondo::test {

class SystemCallTrap {
 public:
  static bool supported();
  void begin();
  long end();  // the number of the first system call since begin(), or -1
};

// Calls that only wait or look after a wait: they come when the peer is late.
bool is_waiting_call(long number);

}  // namespace rondo::test
