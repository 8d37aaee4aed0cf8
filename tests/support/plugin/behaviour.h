/* How the test plugin behaves, and what it has counted; test_plugin.h says what the words mean. */
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

/* Of a word of the behaviour: its number, or `otherwise`. */
int setting(const char* word, int otherwise);
/* Whether this call of the function is to fail. */
int fails(const char* function);
/* Something called the plugin as it must not be: INTERNAL_ERROR. */
int complain(const char* what);

#endif
