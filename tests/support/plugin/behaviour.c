/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/plugin/behaviour.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/plugin/test_plugin.h"

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char words[256];
static int set = 0;
static long calls = 0; /* to the function that fails */
atomic_long counters[COUNTERS];

static const char* const kNames[COUNTERS] = {"connections", "registrations", "contexts",  "flushes",
                                             "complaints",  "inits",         "registered"};

EXPORT void rondo_test_plugin_behave(const char* as) {
  pthread_mutex_lock(&mutex);
  snprintf(words, sizeof(words), " %s ", as);
  set = 1;
  calls = 0;
  pthread_mutex_unlock(&mutex);
}

EXPORT long rondo_test_plugin_count(const char* what) {
  for (int i = 0; i < COUNTERS; ++i)
    if (strcmp(what, kNames[i]) == 0) return atomic_load(&counters[i]);
  return -1;
}

/* The text after " word=", or NULL. The caller holds the mutex. */
static const char* value_of(const char* word) {
  if (!set) {
    const char* wanted = getenv("RONDO_TEST_PLUGIN");
    snprintf(words, sizeof(words), " %s ", wanted ? wanted : "");
    set = 1;
  }
  char key[64];
  snprintf(key, sizeof(key), " %s=", word);
  const char* at = strstr(words, key);
  return at ? at + strlen(key) : NULL;
}

int setting(const char* word, int otherwise) {
  pthread_mutex_lock(&mutex);
  const char* value = value_of(word);
  const int number = value ? atoi(value) : otherwise;
  pthread_mutex_unlock(&mutex);
  return number;
}

int fails(const char* function) {
  pthread_mutex_lock(&mutex);
  const char* value = value_of("fail");
  const size_t length = strlen(function);
  int result = 0;
  if (value && strncmp(value, function, length) == 0 && value[length] == ':')
    result = ++calls >= atoi(value + length + 1);
  pthread_mutex_unlock(&mutex);
  return result;
}

int complain(const char* what) {
  atomic_fetch_add(&counters[COMPLAINTS], 1);
  fprintf(stderr, "test plugin: %s\n", what);
  return 3; /* ncclInternalError */
}
