// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "api/watch/mpi/events.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the program's MPI ----

typedef int (*Rank)(Any communicator, int* rank);
typedef int (*GroupOf)(Any communicator, Any* group);
typedef int (*Translate)(Any group, int n, const int* ranks, Any other, int* others);
typedef int (*GroupFree)(Any* group);
typedef int (*TypeName)(Any type, char* name, int* length);
typedef int (*TypeSize)(Any type, int* size);

MpiFunction mpi_function(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == NULL) {
    fprintf(stderr, "rondo watch: this program has no MPI: there is no %s\n", name);
    abort();
  }
  MpiFunction function;
  memcpy(&function, &found, sizeof found);
  return function;
}

enum { kMaxName = 512 };  // of any MPI: 64 to 256

static bool has_int_handles;  // MPICH's
static Any world;
static TypeName type_name;
static TypeSize type_size;

static void find_constants(void) {
  void* const open_mpi = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
  void* const standard = dlopen("libmpi_abi.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (open_mpi != NULL) {
    world = open_mpi;
  } else if (standard != NULL) {  // MPI 5, section 20.3
    world = (Any)0x101;
  } else {
    has_int_handles = true;
    world = (Any)0x44000000;
  }
  type_name = (TypeName)mpi_function("PMPI_Type_get_name");
  type_size = (TypeSize)mpi_function("PMPI_Type_size");
}

// The upper half of a register that holds an int is not defined.
static Any handle_of(Any passed) {
  return has_int_handles ? (Any)(uintptr_t)(uint32_t)(uintptr_t)passed : passed;
}

// ---- librondo-watch.so, by version 5 of NCCL's profiler plugin interface ----

enum { kColl = 1 << 1, kP2p = 1 << 2 };

struct Collective {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* group;
};
struct Message {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
  void* group;
};
struct Descriptor {
  uint64_t kind;
  void* parent;
  int rank;
  union {
    struct Collective collective;
    struct Message message;
  };
};
_Static_assert(sizeof(struct Descriptor) == 112, "as in version 5");

struct Table {
  const char* name;
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, void*);
  int (*start)(void*, void**, struct Descriptor*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*finish)(void*);
};
static const struct Table* table;  // null: nothing is recorded

static void load_plugin(void) {
  Dl_info here;
  char path[4096];
  if (dladdr((void*)&table, &here) == 0 || here.dli_fname == NULL) return;
  const char* const slash = strrchr(here.dli_fname, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - here.dli_fname) + 1;
  const int length = snprintf(path, sizeof path, "%.*slibrondo-watch.so", folder, here.dli_fname);
  if (length < 0 || (size_t)length >= sizeof path) return;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != NULL) table = dlsym(library, "ncclProfiler_v5");
  if (table == NULL) fprintf(stderr, "rondo watch: MPI is not watched: %s\n", dlerror());
}

// ---- communicators ----

struct Communicator {
  Any handle;
  void* context;
  int rank;
  uint64_t hash;
  struct Communicator* next;
};
static struct Communicator* communicators;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t job;  // equal on all ranks of the job, of what launchers tell them
struct Created {
  uint64_t members;  // hash
  uint64_t times;    // communicators of these that this process has made so far
};
static struct Created* created;
static size_t created_count;

static uint64_t mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9e3779b97f4a7c15ULL;
  return state ^ state >> 29;
}

// No message: a rank that is not watched, because its host has not this library, must not be waited
// for. False: without rondo watch's number, or where it has not come to this rank.
static bool find_job(void) {
  static const char* const kNames[] = {"RONDO_WATCH_JOB", "PMIX_NAMESPACE",
                                       "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", "SLURM_STEP_ID"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i)
    for (const char* at = getenv(kNames[i]); at != NULL && *at != '\0'; ++at)
      job = mix(job, (uint64_t)(unsigned char)*at + (i << 8));
  const char* const number = getenv(kNames[0]);
  return number != NULL && *number != '\0';
}

// Of its members and of how many communicators before it had the same ones. All members create
// them in the same order, so they need no message for it. 0: not known.
static uint64_t hash_of(Any communicator, int size) {
  Any group = NULL, all = NULL;  // MPICH writes the lower half
  const GroupOf group_of = (GroupOf)mpi_function("PMPI_Comm_group");
  const GroupFree free_group = (GroupFree)mpi_function("PMPI_Group_free");
  if (group_of(communicator, &group) != 0) return 0;
  uint64_t hash = job;
  if (group_of(world, &all) == 0) {
    const Translate translate = (Translate)mpi_function("PMPI_Group_translate_ranks");
    for (int rank = 0; rank < size; ++rank) {
      int in_world = -1;
      translate(group, 1, &rank, all, &in_world);
      hash = mix(hash, (uint64_t)in_world + 1);
    }
    free_group(&all);
  }
  free_group(&group);
  struct Created* same = created;
  while (same != created + created_count && same->members != hash) ++same;
  if (same == created + created_count) {
    struct Created* const more = realloc(created, (created_count + 1) * sizeof *created);
    if (more == NULL) return 0;
    created = more;
    same = created + created_count++;
    *same = (struct Created){hash, 0};
  }
  return mix(hash, ++same->times);
}

static void add(Any handle, const char* name) {
  int rank = 0, size = 0;
  if (((Rank)mpi_function("PMPI_Comm_rank"))(handle, &rank) != 0 ||
      ((Rank)mpi_function("PMPI_Comm_size"))(handle, &size) != 0)
    return;
  struct Communicator* const made = calloc(1, sizeof *made);
  pthread_mutex_lock(&lock);
  const uint64_t hash = made == NULL ? 0 : hash_of(handle, size);
  int mask = 0;
  if (hash != 0 && table->init(&made->context, hash, &mask, name, 0, size, rank, NULL) == 0) {
    made->handle = handle, made->rank = rank, made->hash = hash;
    made->next = communicators;
    communicators = made;
  } else {
    free(made);
  }
  pthread_mutex_unlock(&lock);
}

void begin_watch(void) {
  if (!find_job()) {
    fprintf(stderr,
            "rondo watch: MPI is not watched: this rank has no RONDO_WATCH_JOB; hand it on with "
            "LD_PRELOAD (mpirun -x, -genvall)\n");
    return;
  }
  find_constants();
  load_plugin();
  if (table != NULL) add(world, "MPI_COMM_WORLD");
}

void end_watch(void) {
  if (table == NULL) return;
  for (struct Communicator* one = communicators; one != NULL; one = one->next)
    table->finish(one->context);
  table = NULL;
}

void add_communicator(const Any* communicator) {
  if (table == NULL) return;
  // MPI ends the program where it is asked about the null communicator.
  const Any handle = handle_of(*communicator);
  const bool is_null = has_int_handles ? handle == (Any)0x04000000
                       : dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null") != NULL
                           ? handle == dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null")
                           : handle == (Any)0x100;
  if (!is_null) add(handle, "");
}

void drop_communicator(const Any* communicator) {
  const Any handle = handle_of(*communicator);
  pthread_mutex_lock(&lock);
  for (struct Communicator** at = &communicators; *at != NULL; at = &(*at)->next)
    if ((*at)->handle == handle) {
      struct Communicator* const gone = *at;
      *at = gone->next;
      if (table != NULL) table->finish(gone->context);
      free(gone);
      break;
    }
  pthread_mutex_unlock(&lock);
}

// ---- events ----

static const char* const kTypes[][2] = {
    {"MPI_FLOAT", "ncclFloat32"},   {"MPI_DOUBLE", "ncclFloat64"},
    {"MPI_INT", "ncclInt32"},       {"MPI_INT32_T", "ncclInt32"},
    {"MPI_INT64_T", "ncclInt64"},   {"MPI_LONG", "ncclInt64"},
    {"MPI_UINT32_T", "ncclUint32"}, {"MPI_UNSIGNED", "ncclUint32"},
    {"MPI_UINT64_T", "ncclUint64"}, {"MPI_UNSIGNED_LONG", "ncclUint64"},
    {"MPI_INT8_T", "ncclInt8"},
};

// Other types count as bytes.
static void describe(Any type, size_t* count, const char** name) {
  char text[kMaxName];
  int length = 0, size = 1;
  *name = "ncclUint8";
  if (*count == 0) return;
  if (type_name(type, text, &length) == 0)
    for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; ++i)
      if (strcmp(text, kTypes[i][0]) == 0) {
        *name = kTypes[i][1];
        return;
      }
  if (type_size(type, &size) == 0) *count *= (size_t)size;
}

static struct Communicator* find(Any passed) {
  const Any handle = handle_of(passed);
  for (struct Communicator* one = communicators; one != NULL; one = one->next)
    if (one->handle == handle) return one;
  return NULL;
}

static Event start(Any communicator, struct Descriptor* event) {
  void* handle = NULL;
  pthread_mutex_lock(&lock);
  struct Communicator* const found = find(communicator);
  if (found != NULL && table != NULL) {
    event->rank = found->rank;
    table->start(found->context, &handle, event);
  }
  pthread_mutex_unlock(&lock);
  return handle;
}

Event enter_collective(const char* function, Any communicator, int count, Any type, int root) {
  if (table == NULL) return NULL;
  struct Descriptor event = {.kind = kColl};
  event.collective = (struct Collective){
      .function = function, .count = count > 0 ? (size_t)count : 0, .root = root, .channels = 1};
  describe(type, &event.collective.count, &event.collective.type);
  return start(communicator, &event);
}

Event enter_message(const char* function, Any communicator, int count, Any type, int peer) {
  if (table == NULL) return NULL;
  struct Descriptor event = {.kind = kP2p};
  event.message = (struct Message){.function = function,
                                   .count = count > 0 ? (size_t)count : 0,
                                   .peer = peer < 0 ? -1 : peer,
                                   .channels = 1};
  describe(type, &event.message.count, &event.message.type);
  return start(communicator, &event);
}

void leave(Event event) {
  if (event != NULL && table != NULL) table->stop(event);
}
