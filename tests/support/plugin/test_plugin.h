/* What tests ask of the test plugin, beside the interface that it exports; found by dlsym(). */
#ifndef RONDO_TEST_PLUGIN_H_
#define RONDO_TEST_PLUGIN_H_

/* How it behaves from now on, "" as a plugin should; else words with blanks between them:
 *   slow=N       connect and accept give nothing in their first N calls of a connection
 *   null=N       every isend, irecv gives no request in its first N calls
 *   lag=N        test() of a receive says "not yet" in its first N calls
 *   fail=F:N     the Nth call of function F from now on gives ncclSystemError, and all after it
 *   devices=N    there are N devices
 *   offload=1    device 0 wants kernels on the GPU; offload=2: connect() does
 *   short=1      test() of a receive says one byte less
 *   global=1     registrations are for all connections
 *   cuda=1       takes memory of GPUs, which sees what has come once it is flushed
 *   dmabuf=1     takes such memory by its dmabuf file, and needs no address that it can read
 * Without a call, the variable RONDO_TEST_PLUGIN has the words. */
typedef void (*rondo_test_plugin_behave_t)(const char* words);

/* How many there are now: "connections", "registrations", "contexts"; or were since the library was
 * loaded: "flushes", "complaints" (calls that break the interface's rules; the last one is told on
 * stderr), "inits", "registered". */
typedef long (*rondo_test_plugin_count_t)(const char* what);

#endif
