// SPDX-License-Identifier: Apache-2.0
// Another NCCL, for check_watch.py: a program's global symbols that Rondo also has.
int ncclGetVersion(int* version) {
  *version = 99999;
  return 0;
}
int ncclAllReduce(void) { return 4711; }
int pncclAllReduce(void) { return 4711; }

// Through the symbol, as a program calls it.
int version_that_the_program_sees(void) {
  int version = 0;
  ncclGetVersion(&version);
  return version;
}
