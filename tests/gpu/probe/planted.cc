// SPDX-License-Identifier: Apache-2.0
// Probes that fail, to test the program that runs them.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "answer.h"
#include "asks.h"

namespace probe {

// Prints something and has a child; neither ends by itself, nor by a signal that can be ignored.
void ask_planted_hang() {
  std::signal(SIGTERM, SIG_IGN);
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  put("child", child);
  for (;;) {
  }
}
void ask_planted_abort() {
  put("before", 1);
  std::abort();
}
void ask_planted_end() {
  put("value", 42, "units");
  put("text", "quotes \" and \\ and a line\nbreak");
  check("planted", false, "as planted");
  check("planted", true, "too late");
  answer("it went well");
}

}  // namespace probe
