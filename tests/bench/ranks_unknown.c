// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD library: no process can read the variables by which it would know that it is a rank.
// A rank that a rank started ends at once with status 99, so that no test starts ranks without end.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int number_in(const char* name) {
  const char* const text = getenv(name);
  return text == NULL ? 0 : atoi(text);
}

__attribute__((constructor)) static void forget_rank(void) {
  static const char* const of_ranks[] = {"RANK",       "WORLD_SIZE",       "RONDO_JOB",
                                         "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"};
  if (getenv("RANK") == NULL) return;
  const int generation = number_in("TEST_GENERATION") + 1;
  if (generation > 1) {
    fprintf(stderr, "a rank started this rank\n");
    _exit(99);
  }
  char text[16];
  snprintf(text, sizeof text, "%d", generation);
  setenv("TEST_GENERATION", text, 1);
  for (size_t i = 0; i < sizeof of_ranks / sizeof *of_ranks; ++i) unsetenv(of_ranks[i]);
}
