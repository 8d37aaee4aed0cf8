// SPDX-License-Identifier: Apache-2.0
/* The behaviour and the counters of the test plugin; test_plugin.h defines the words. */
#ifndef RONDO_TEST_PLUGIN_BEHAVIOUR_H_
#define RONDO_TEST_PLUGIN_BEHAVIOUR_H_

#include <stdatomic.h>

enum counter {
  CONNECTIONS,
  REGISTRATIONS,
  CONTEXTS,
  FLUSHES,
  COMPLAINTS,
  INITS,
  REGISTERED,
  COUNTERS
};
extern atomic_long counters[COUNTERS];

/* The number of a behaviour word, or `otherwise` if it is not set. */
int setting(const char* word, int otherwise);
/* True if this call of the function must fail. */
int fails(const char* function);
/* Records a call that breaks the interface's rules; returns INTERNAL_ERROR. */
int complain(const char* what);

#endif
