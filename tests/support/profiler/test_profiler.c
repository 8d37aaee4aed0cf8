/* SPDX-License-Identifier: Apache-2.0 */
/* A profiler plugin for tests, in plain C: all versions of NCCL's interface, one alone, or none.
 * It appends a line per call of its functions to the file $RONDO_TEST_PROFILER_FOLDER/PID:
 *   init version=5 rank=0 ranks=4 hosts=1 comm=9f mask=1795 name=x
 *   start id=2 rank=0 kind=512 parent=1 func=AllReduce count=8 type=ncclFloat32 root=-1 ...
 *   state id=1 rank=0 state=23
 *   stop id=2 rank=0 kind=512
 *   end rank=0
 * Ids are of the process, from 1; 0 is NULL. A line "wrong ..." reports a handle that it did not
 * make, an event that is used after its stop, or a child of another process's parent.
 * $RONDO_TEST_PROFILER_MASK: events, as a number; $RONDO_TEST_PROFILER_FAIL: the function to fail,
 * or "by a crash", "by abort": how init ends.
 */
#include "tests/support/profiler/descriptors.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
/* Used in some versions only. */
#define PART __attribute__((unused)) static

enum { SUCCESS = 0, SYSTEM_ERROR = 2 };
enum { GROUP = 1, COLL = 2, P2P = 4, GROUP_API = 256, COLL_API = 512, P2P_API = 1024 };

typedef int result_t;
typedef void (*logger_t)(int, unsigned long, const char*, int, const char*, ...);

typedef struct {
  long rank;
  FILE* file;
} context_t;
typedef struct event {
  struct event* next;
  context_t* context;
  long id;
  uint64_t kind;
  bool stopped;
} event_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static event_t* events; /* all of the process, newest first */
static long newest_id;

static bool fails(const char* function) {
  const char* failing = getenv("RONDO_TEST_PROFILER_FAIL");
  return failing != NULL && strcmp(failing, function) == 0;
}

__attribute__((format(printf, 2, 3))) static void write_line(context_t* context, const char* format,
                                                             ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  if (context->file == NULL || length < 0) return;
  fprintf(context->file, "%s\n", line);
  fflush(context->file);
}

/* The id of a handle of this process; -1: it is none. With the mutex. */
static long id_of(const void* handle) {
  if (handle == NULL) return 0;
  for (const event_t* each = events; each != NULL; each = each->next)
    if (each == handle) return each->id;
  return -1;
}

static result_t start_any(void* as, void** handle, uint64_t kind, const void* parent, int rank,
                          const char* words) {
  context_t* context = as;
  if (fails("startEvent")) return SYSTEM_ERROR;
  event_t* made = calloc(1, sizeof(*made));
  pthread_mutex_lock(&mutex);
  made->next = events;
  made->context = context;
  made->id = ++newest_id;
  made->kind = kind;
  const long parent_id = id_of(parent);
  if (parent_id < 0) write_line(context, "wrong parent of %ld", made->id);
  write_line(context, "start id=%ld rank=%d kind=%" PRIu64 " parent=%ld%s", made->id, rank, kind,
             parent_id, words);
  events = made;
  pthread_mutex_unlock(&mutex);
  *handle = made;
  return SUCCESS;
}

static result_t use(void* handle, const char* what, int state) {
  pthread_mutex_lock(&mutex);
  event_t* event = handle;
  if (id_of(handle) <= 0) {
    fprintf(stderr, "RondoTest: %s of a handle that it did not make\n", what);
    abort();
  }
  if (event->stopped) write_line(event->context, "wrong %s of stopped %ld", what, event->id);
  if (state < 0) {
    event->stopped = true;
    write_line(event->context, "stop id=%ld rank=%ld kind=%" PRIu64, event->id,
               event->context->rank, event->kind);
  } else {
    write_line(event->context, "state id=%ld rank=%ld state=%d", event->id, event->context->rank,
               state);
  }
  pthread_mutex_unlock(&mutex);
  return fails(what) ? SYSTEM_ERROR : SUCCESS;
}
PART result_t stop(void* handle) { return use(handle, "stopEvent", -1); }
PART result_t record(void* handle, int state, void* arguments) {
  if (arguments == NULL) abort();
  return use(handle, "recordEventState", state);
}

PART result_t open_context(void** context, int* mask, int version, uint64_t comm, const char* name,
                           int hosts, int ranks, int rank) {
  if (fails("init")) return SYSTEM_ERROR;
  if (fails("by a crash")) raise(SIGSEGV);
  if (fails("by abort")) abort();
  const char* folder = getenv("RONDO_TEST_PROFILER_FOLDER");
  const char* wanted = getenv("RONDO_TEST_PROFILER_MASK");
  context_t* made = calloc(1, sizeof(*made));
  made->rank = rank;
  if (folder != NULL) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
    made->file = fopen(path, "a");
  }
  const int events =
      wanted != NULL ? atoi(wanted) : GROUP | COLL | P2P | GROUP_API | COLL_API | P2P_API;
  __atomic_store_n(mask, events, __ATOMIC_RELAXED);  // ranks that run already read it
  write_line(made, "init version=%d rank=%d ranks=%d hosts=%d comm=%" PRIx64 " mask=%d name=%s",
             version, rank, ranks, hosts, comm, events, name == NULL ? "-" : name);
  *context = made;
  return SUCCESS;
}

PART result_t finish(void* as) {
  context_t* context = as;
  write_line(context, "end rank=%ld", context->rank);
  pthread_mutex_lock(&mutex);
  for (event_t** each = &events; *each != NULL;) {
    event_t* event = *each;
    if (event->context != context) {
      each = &event->next;
      continue;
    }
    if (!event->stopped) write_line(context, "wrong end before the stop of %ld", event->id);
    *each = event->next;
    free(event);
  }
  pthread_mutex_unlock(&mutex);
  if (context->file != NULL) fclose(context->file);
  free(context);
  return fails("finalize") ? SYSTEM_ERROR : SUCCESS;
}

/* Words after a start line. */
#define WORDS(...) \
  char words[768]; \
  snprintf(words, sizeof(words), __VA_ARGS__)
#define COLL_WORDS(CHANNELS, TEXT)                                                              \
  WORDS(" func=" TEXT " count=%zu type=" TEXT " root=%d seq=%" PRIu64 " channels=%d algo=" TEXT \
        " proto=" TEXT " send=%p recv=%p",                                                      \
        d->coll.func, d->coll.count, d->coll.datatype, d->coll.root, d->coll.seqNumber,         \
        d->coll.CHANNELS, d->coll.algo, d->coll.proto, d->coll.sendBuff, d->coll.recvBuff)
#define P2P_WORDS(TEXT)                                                                        \
  WORDS(" func=" TEXT " count=%zu type=" TEXT " peer=%d buffer=%p", d->p2p.func, d->p2p.count, \
        d->p2p.datatype, d->p2p.peer, d->p2p.buff)
#define START return start_any(context, handle, d->type, d->parentObj, d->rank, words)

/* For versions 1 to 4. */
#define START_FUNCTION(NUMBER, CHANNELS, TEXT)                                  \
  PART result_t start##NUMBER(void* context, void** handle, void* descriptor) { \
    const descriptor##NUMBER##_t* d = descriptor;                               \
    if (d->type == COLL) {                                                      \
      COLL_WORDS(CHANNELS, TEXT);                                               \
      START;                                                                    \
    }                                                                           \
    if (d->type == P2P) {                                                       \
      P2P_WORDS(TEXT);                                                          \
      START;                                                                    \
    }                                                                           \
    WORDS("%s", "");                                                            \
    START;                                                                      \
  }
START_FUNCTION(1, nMaxChannels, "%d")
START_FUNCTION(2, nMaxChannels, "%s")
START_FUNCTION(3, nMaxChannels, "%s")
START_FUNCTION(4, nChannels, "%s")

PART result_t start5(void* context, void** handle, void* descriptor) {
  const descriptor5_t* d = descriptor;
  if (d->type == COLL) {
    COLL_WORDS(nChannels, "%s");
    START;
  }
  if (d->type == P2P) {
    P2P_WORDS("%s");
    START;
  }
  if (d->type == GROUP_API) {
    WORDS(" depth=%d captured=%d", d->groupApi.groupDepth, d->groupApi.graphCaptured);
    START;
  }
  if (d->type == COLL_API) {
    WORDS(" func=%s count=%zu type=%s root=%d stream=%p captured=%d", d->collApi.func,
          d->collApi.count, d->collApi.datatype, d->collApi.root, d->collApi.stream,
          d->collApi.graphCaptured);
    START;
  }
  if (d->type == P2P_API) {
    WORDS(" func=%s count=%zu type=%s stream=%p captured=%d", d->p2pApi.func, d->p2pApi.count,
          d->p2pApi.datatype, d->p2pApi.stream, d->p2pApi.graphCaptured);
    START;
  }
  WORDS("%s", "");
  START;
}

#if defined(RONDO_ONLY_VERSION)
#define HAS(version) ((version) == RONDO_ONLY_VERSION)
#else
#define HAS(version) 1
#endif

#define INIT1(NUMBER)                                              \
  static result_t init##NUMBER(void** context, int* mask) {        \
    return open_context(context, mask, NUMBER, 0, NULL, 0, 0, -1); \
  }
#define INIT4(NUMBER)                                                                      \
  static result_t init##NUMBER(void** context, int* mask, const char* name, uint64_t comm, \
                               int hosts, int ranks, int rank, logger_t log) {             \
    log(3, 1, __FILE__, __LINE__, "RondoTest starts");                                     \
    return open_context(context, mask, NUMBER, comm, name, hosts, ranks, rank);            \
  }
#define INIT5(NUMBER)                                                                      \
  static result_t init##NUMBER(void** context, uint64_t comm, int* mask, const char* name, \
                               int hosts, int ranks, int rank, logger_t log) {             \
    log(3, 1, __FILE__, __LINE__, "RondoTest starts");                                     \
    return open_context(context, mask, NUMBER, comm, name, hosts, ranks, rank);            \
  }
/* The table of one version. */
typedef void (*any_t)(void);
typedef struct {
  const char* name;
  any_t init;
  result_t (*startEvent)(void*, void**, void*);
  result_t (*stopEvent)(void*);
  result_t (*recordEventState)(void*, int, void*);
  result_t (*finalize)(void*);
} profiler_t;
#define TABLE(NUMBER, INIT, START_OF)                \
  INIT(NUMBER)                                       \
  EXPORT const profiler_t ncclProfiler_v##NUMBER = { \
      "RondoTest", (any_t)init##NUMBER, START_OF, stop, record, finish};
#if HAS(1)
TABLE(1, INIT1, start1)
#endif
#if HAS(2)
TABLE(2, INIT1, start2)
#endif
#if HAS(3)
TABLE(3, INIT1, start3)
#endif
#if HAS(4)
TABLE(4, INIT4, start4)
#endif
#if HAS(5)
TABLE(5, INIT5, start5)
#endif
#if HAS(6)
TABLE(6, INIT5, start5)
#endif
