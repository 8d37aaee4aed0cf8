// SPDX-License-Identifier: Apache-2.0
// Runs a shell command line as a user would, and returns its output; waits for what it shows.
#pragma once

#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "base/poll_until.h"

struct ShellResult {
  int status;
  std::string text;
};

inline ShellResult shell(const std::string& line) {
  std::FILE* pipe = popen(("{ " + line + "; } 2>&1").c_str(), "re");
  ShellResult output{-1, ""};
  if (pipe == nullptr) return output;
  char buffer[4096];
  while (const std::size_t size = std::fread(buffer, 1, sizeof buffer, pipe))
    output.text.append(buffer, size);
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

// False after five minutes.
inline bool eventually(const std::function<bool()>& holds) {
  return rondo::poll_until(holds, rondo::seconds_from_now(300), std::chrono::milliseconds(50));
}
