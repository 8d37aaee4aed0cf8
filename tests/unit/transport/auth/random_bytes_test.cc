// SPDX-License-Identifier: Apache-2.0
// Random bytes if getrandom is forbidden, as in some sandboxes.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "transport/auth/hmac.h"

namespace rondo::auth {
namespace {

// Forbids getrandom in this process, and opening files if `files_too`.
bool refuse(bool files_too) {
  const auto refused = [](unsigned number) -> sock_filter {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
  };
  const sock_filter error = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      refused(SYS_getrandom),
      error,
      refused(files_too ? SYS_openat : SYS_getrandom),
      error,
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(rules) / sizeof(rules[0]), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs in a child. Returns 0 for different digests, 1 for two equal ones, 2 for an error, 77 if no
// filter can be installed.
int digests_where_refused(bool files_too) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    if (!refuse(files_too)) _exit(77);
    try {
      _exit(random_digest() == random_digest() ? 1 : 0);
    } catch (const std::system_error&) {
      _exit(2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(RandomBytes, ComeFromTheDeviceWhereTheCallIsRefused) {
  const int outcome = digests_where_refused(false);
  if (outcome == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(outcome, 0);
}

TEST(RandomBytes, AreAnErrorWhereThereAreNone) {
  const int outcome = digests_where_refused(true);
  if (outcome == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(outcome, 2);
}

}  // namespace
}  // namespace rondo::auth
