/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the header compiles as C. */
#include "api/launch_env.h"

int launch_env_compiles_as_c(void);
int launch_env_compiles_as_c(void) {
  rondo_launch_t me = {0, 1, -1, -1, "", 0};
  char byte = 0;
  return rondo_launch_broadcast(&me, &byte, 1, 1.0);
}
