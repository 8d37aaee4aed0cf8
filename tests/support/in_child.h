// SPDX-License-Identifier: Apache-2.0
// in_child(): runs a body in a forked child. For bodies that change process-wide state
// (descriptors, limits, variables that are read once).
//
//   EXPECT_EQ(in_child([] { return close(0) == 0 ? "" : "it was closed"; }), "");
// Guarantees: returns what the body returned, or the signal that ended the child. After five
// minutes the signal is SIGALRM.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

namespace rondo::test {

inline std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);  // an earlier test may have left a handler
    alarm(300);
    const std::string text = body();
    const bool written =
        write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(ends[0], buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? text : "ended with status " + std::to_string(status);
}

}  // namespace rondo::test
