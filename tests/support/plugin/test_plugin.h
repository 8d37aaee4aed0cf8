// SPDX-License-Identifier: Apache-2.0
/* Controls of the test plugin for tests, beside the interface that it exports; use dlsym(). */
#ifndef RONDO_TEST_PLUGIN_H_
#define RONDO_TEST_PLUGIN_H_

/* Sets the behaviour. "": correct. Otherwise words separated by blanks:
 *   slow=N       connect and accept return nothing in a connection's first N calls
 *   null=N       every isend and irecv returns no request in its first N calls
 *   lag=N        test() of a receive returns "not done" in its first N calls
 *   fail=F:N     function F returns ncclSystemError from its Nth call from now on
 *   devices=N    reports N devices
 *   offload=1    device 0 requires kernels on the GPU; offload=2: connect() does
 *   short=1      test() of a receive reports one byte less
 *   pace=N       all connections of the process together move N MB/s
 *   flip=N       a bit flips in every message of N bytes or more that arrives
 *   global=1     registrations are valid for all connections
 *   cuda=1       takes GPU memory; received data are visible there after a flush
 *   dmabuf=1     takes GPU memory by its dmabuf file; does not need a readable address
 * Before the first call, the variable RONDO_TEST_PLUGIN gives the words. */
typedef void (*rondo_test_plugin_behave_t)(const char* words);

/* Current numbers: "connections", "registrations", "contexts". Numbers since the library was
 * loaded: "flushes", "complaints" (calls that break the interface's rules; stderr shows the last
 * one), "inits", "registered". */
typedef long (*rondo_test_plugin_count_t)(const char* what);

#endif
