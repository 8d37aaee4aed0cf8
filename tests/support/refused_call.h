// SPDX-License-Identifier: Apache-2.0
// refuse_calls(): from now on the kernel refuses these system calls to this process, as a container
// with a strict seccomp profile does.
//
//   EXPECT_EQ(in_child([] { return refuse_calls({SYS_accept4}) ? work() : kNoFilters; }), "");
// Guarantees: a refused call returns the error and does nothing. It holds for the calling thread
// and those that it starts, and cannot be undone: call it in a child, before threads start. False:
// no filter can be installed here.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <initializer_list>
#include <vector>

namespace rondo::test {

inline constexpr char kNoFilters[] = "no seccomp filters here";

inline bool refuse_calls(std::initializer_list<unsigned> numbers, unsigned error = EPERM) {
  std::vector<sock_filter> rules{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};  // the call's number
  for (const unsigned number : numbers) {
    rules.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    rules.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
  }
  rules.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace rondo::test
