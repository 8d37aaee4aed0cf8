/* SPDX-License-Identifier: Apache-2.0 */
/* Written from NVIDIA's published headers tuner_v2.h to tuner_v6.h, independently of the library's
 * own declarations (collectives/tuner/abi.h), so that an error in one shows against the other. */
#include "tests/support/tuner/test_tuner.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
/* Used in some versions only. */
#define PART __attribute__((unused)) static

enum { SUCCESS = 0, SYSTEM_ERROR = 2 };
enum { TREE, RING, ALGORITHMS = 7 };
enum { LL, LL128, SIMPLE, PROTOCOLS = 3 };
enum { COMPUTE_CAPABILITIES = 4, SCALES = 3, LINKS = 3 };

typedef int result_t;
typedef void (*logger_t)(int, unsigned long, const char*, int, const char*, ...);

typedef struct {
  int nNvlDomains, minRanksPerNvlDomain, maxRanksPerNvlDomain;
} domains_t;

typedef struct {
  double baseLatencies[ALGORITHMS][PROTOCOLS];
  double hwLatencies[LINKS][ALGORITHMS][PROTOCOLS];
  double llMaxBws[COMPUTE_CAPABILITIES][SCALES];
  double perChMaxRingLL128Bws[COMPUTE_CAPABILITIES][SCALES];
  double perChMaxTreeLL128Bws[COMPUTE_CAPABILITIES][SCALES];
  double perChMaxTreeBws[COMPUTE_CAPABILITIES][SCALES];
  double perChMaxNVLSTreeBws[COMPUTE_CAPABILITIES][SCALES];
} constants_t;

typedef struct {
  int algorithm, protocol, function, channels, dearer, restless;
  size_t max_bytes;
  int fails_to_answer, fails_to_end;
  long asked;
} context_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long contexts, inits, asks, complaints;

EXPORT long rondo_test_tuner_count(const char* what) {
  pthread_mutex_lock(&mutex);
  const long found = strcmp(what, "contexts") == 0     ? contexts
                     : strcmp(what, "inits") == 0      ? inits
                     : strcmp(what, "asks") == 0       ? asks
                     : strcmp(what, "complaints") == 0 ? complaints
                                                       : -1;
  pthread_mutex_unlock(&mutex);
  return found;
}

PART void complain(void) {
  pthread_mutex_lock(&mutex);
  ++complaints;
  pthread_mutex_unlock(&mutex);
}

/* The text after "word=", or NULL. */
static const char* value_of(const char* word) {
  const char* words = getenv("RONDO_TEST_TUNER");
  const size_t length = strlen(word);
  for (const char* at = words; at != NULL && *at != '\0'; ++at)
    if ((at == words || at[-1] == ' ') && strncmp(at, word, length) == 0 && at[length] == '=')
      return at + length + 1;
  return NULL;
}
PART long setting(const char* word, long otherwise) {
  const char* value = value_of(word);
  return value != NULL ? atol(value) : otherwise;
}
PART int fails(const char* function) {
  const char* value = value_of("fail");
  return value != NULL && strncmp(value, function, strlen(function)) == 0;
}

PART result_t start(size_t ranks, size_t hosts, logger_t log, void** context) {
  enum { LEVEL_INFO = 3, PART_TUNING = 0x40 };
  if (ranks < 1 || hosts < 1 || hosts > ranks) complain();
  log(LEVEL_INFO, PART_TUNING, __FILE__, __LINE__, "RondoTest tunes %zu ranks", ranks);
  if (fails("init")) return SYSTEM_ERROR;
  context_t* made = calloc(1, sizeof(*made));
  made->algorithm = (int)setting("algorithm", -1);
  made->protocol = (int)setting("protocol", -1);
  made->function = (int)setting("function", -1);
  made->channels = (int)setting("channels", 0);
  made->dearer = (int)setting("dearer", 0);
  made->restless = (int)setting("restless", 0);
  made->max_bytes = (size_t)setting("max_bytes", INT64_MAX);
  made->fails_to_answer = fails("getCollInfo");
  made->fails_to_end = fails("finalize");
  pthread_mutex_lock(&mutex);
  ++contexts;
  if (++inits % 2 == 0 && setting("alternate", 0) != 0) {
    made->algorithm = RING;
    made->protocol = SIMPLE;
  }
  pthread_mutex_unlock(&mutex);
  *context = made;
  return SUCCESS;
}

PART result_t start5(void** context, uint64_t communicator, size_t ranks, size_t hosts,
                     logger_t log, domains_t* domains, constants_t* constants) {
  if (communicator == 0 || domains->nNvlDomains != (int)hosts ||
      domains->minRanksPerNvlDomain < 1 ||
      domains->maxRanksPerNvlDomain < domains->minRanksPerNvlDomain)
    complain();
  if (!(constants->baseLatencies[RING][LL] > 0) || !(constants->hwLatencies[0][TREE][SIMPLE] > 0))
    complain();
  constants->perChMaxNVLSTreeBws[COMPUTE_CAPABILITIES - 1][SCALES - 1] = 1;
  return start(ranks, hosts, log, context);
}

/* The choice of this context for a call; 0: none. */
PART int choose(context_t* context, int function, size_t bytes, int calls, int* algorithm,
                int* protocol, int* channels) {
  pthread_mutex_lock(&mutex);
  ++asks;
  pthread_mutex_unlock(&mutex);
  if (function < 0 || function > 4 || bytes == 0 || calls != 1) complain();
  if (bytes > context->max_bytes) return 0;
  if (context->function >= 0 && context->function != function) return 0;
  if (context->channels != 0) *channels = context->channels;
  *algorithm = context->algorithm;
  *protocol = context->protocol;
  if (context->restless) {
    *algorithm = context->asked % 2 == 0 ? TREE : RING;
    *protocol = context->asked % 3 == 0 ? LL : SIMPLE;
  }
  ++context->asked;
  return *algorithm >= 0;
}

PART result_t ask2(void* as, int function, size_t bytes, int collnet, int nvls, int calls,
                   int* algorithm, int* protocol, int* channels) {
  context_t* context = as;
  if (context->fails_to_answer) return SYSTEM_ERROR;
  if (collnet != 0 || nvls != 0 || *channels != 0) complain();
  choose(context, function, bytes, calls, algorithm, protocol, channels);
  return SUCCESS;
}

PART result_t ask3(void* as, int function, size_t bytes, int calls, float** costs, int algorithms,
                   int protocols, int* channels) {
  context_t* context = as;
  float(*table)[PROTOCOLS] = (float(*)[PROTOCOLS])costs;
  if (context->fails_to_answer) return SYSTEM_ERROR;
  if (algorithms != ALGORITHMS || protocols != PROTOCOLS || *channels != 0) complain();
  for (int a = RING + 1; a < ALGORITHMS; ++a)
    for (int p = 0; p < PROTOCOLS; ++p)
      if (table[a][p] != -1.0f) complain();
  if (context->dearer != 0)
    for (int a = TREE; a <= RING; ++a)
      if (table[a][LL] >= 0) table[a][LL] += (float)context->dearer;
  int algorithm = -1, protocol = -1;
  if (choose(context, function, bytes, calls, &algorithm, &protocol, channels))
    table[algorithm][protocol] = 0;
  return SUCCESS;
}

PART result_t ask4(void* context, int function, size_t bytes, int calls, float** costs,
                   int algorithms, int protocols, int registered, int* channels) {
  if (registered != 0 && registered != 1) complain();
  return ask3(context, function, bytes, calls, costs, algorithms, protocols, channels);
}

PART result_t finish(void* as) {
  context_t* context = as;
  const int failed = context->fails_to_end;
  pthread_mutex_lock(&mutex);
  --contexts;
  pthread_mutex_unlock(&mutex);
  free(context);
  return failed ? SYSTEM_ERROR : SUCCESS;
}

#if defined(RONDO_ONLY_VERSION)
#define HAS(version) ((version) == RONDO_ONLY_VERSION)
#else
#define HAS(version) 1
#endif

typedef struct {
  const char* name;
  result_t (*init)(size_t, size_t, logger_t, void**);
  result_t (*getCollInfo)(void*, int, size_t, int, int, int, int*, int*, int*);
  result_t (*destroy)(void*);
} tuner2_t;
typedef struct {
  const char* name;
  result_t (*init)(size_t, size_t, logger_t, void**);
  result_t (*getCollInfo)(void*, int, size_t, int, float**, int, int, int*);
  result_t (*destroy)(void*);
} tuner3_t;
typedef struct {
  const char* name;
  result_t (*init)(size_t, size_t, logger_t, void**);
  result_t (*getCollInfo)(void*, int, size_t, int, float**, int, int, int, int*);
  result_t (*destroy)(void*);
} tuner4_t;
typedef struct {
  const char* name;
  result_t (*init)(void**, uint64_t, size_t, size_t, logger_t, domains_t*, constants_t*);
  result_t (*getCollInfo)(void*, int, size_t, int, float**, int, int, int, int*);
  result_t (*finalize)(void*);
} tuner5_t;
typedef struct {
  tuner5_t as5;
  result_t (*getChunkSize)(void*, int, size_t, int, int, int, size_t*);
} tuner6_t;

#define NAME "RondoTest"
#if HAS(2)
EXPORT const tuner2_t ncclTunerPlugin_v2 = {NAME, start, ask2, finish};
#endif
#if HAS(3)
EXPORT const tuner3_t ncclTunerPlugin_v3 = {NAME, start, ask3, finish};
#endif
#if HAS(4)
EXPORT const tuner4_t ncclTunerPlugin_v4 = {NAME, start, ask4, finish};
#endif
#if HAS(5)
EXPORT const tuner5_t ncclTunerPlugin_v5 = {NAME, start5, ask4, finish};
#endif
#if HAS(6)
EXPORT const tuner6_t ncclTunerPlugin_v6 = {{NAME, start5, ask4, finish}, NULL};
#endif
