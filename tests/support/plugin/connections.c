/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/support/plugin/connections.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/plugin/behaviour.h"

/* Precedes every message: its length. The caller of the plugin does not check lengths. */
typedef struct {
  uint64_t bytes;
} frame_t;

typedef struct memory {
  struct memory* next;
  void* connection; /* NULL: for all */
  char* data;
  size_t bytes;
  char* shadow; /* GPU memory: received data that is not flushed yet */
  char* mapped; /* mapping of a dmabuf file; `data` is valid only on the GPU */
  void* mapping;
  size_t mapping_bytes;
} memory_t;

typedef struct connection connection_t;
typedef struct {
  connection_t* of;
  int used, done, flushes, tests;
  frame_t frame;
  size_t framed; /* bytes of the frame that have moved */
  char* data;
  size_t room, bytes, moved;
} request_t;

struct connection {
  int fd, sends, refusals;
  request_t requests[MAX_REQUESTS];
  request_t* queue[MAX_REQUESTS]; /* active ones: first to next - 1, in order */
  unsigned long first, next;
  memory_t* memory;
};

typedef struct {
  int fd, calls;
} listener_t;

/* The handle for a peer. connect() keeps its socket in it, as NCCL's plugins do. */
typedef struct {
  uint32_t magic;
  uint16_t port;
  int fd, calls;
} handle_t;

static const uint32_t kMagic = 0x544f4c50;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static memory_t* global = NULL;

static connection_t* new_connection(int fd, int sends) {
  connection_t* made = calloc(1, sizeof(*made));
  made->fd = fd;
  made->sends = sends;
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  atomic_fetch_add(&counters[CONNECTIONS], 1);
  return made;
}

result_t start_listening(void* handle, void** listener) {
  if (fails("listen")) return SYSTEM_ERROR;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(here);
  if (fd < 0) return SYSTEM_ERROR;
  if (bind(fd, (struct sockaddr*)&here, sizeof(here)) || listen(fd, 8) ||
      getsockname(fd, (struct sockaddr*)&here, &length)) {
    close(fd);
    return SYSTEM_ERROR;
  }
  handle_t* out = handle;
  memset(handle, 0, HANDLE_BYTES);
  *out = (handle_t){.magic = kMagic, .port = here.sin_port, .fd = -1};
  listener_t* made = calloc(1, sizeof(*made));
  made->fd = fd;
  atomic_fetch_add(&counters[CONNECTIONS], 1);
  *listener = made;
  return SUCCESS;
}

result_t try_connect(void* handle, void** connection, void** offload) {
  handle_t* at = handle;
  *connection = NULL;
  if (fails("connect")) return SYSTEM_ERROR;
  if (at->magic != kMagic) return INVALID_ARGUMENT;
  if (at->calls++ < setting("slow", 0)) return SUCCESS;
  if (at->fd < 0) {
    at->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = at->port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (at->fd < 0) return SYSTEM_ERROR;
    if (connect(at->fd, (struct sockaddr*)&there, sizeof(there)) && errno != EINPROGRESS)
      return SYSTEM_ERROR;
  }
  struct pollfd ready = {at->fd, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 0) return SUCCESS;
  if (ready.revents & (POLLERR | POLLHUP)) return SYSTEM_ERROR;
  if (setting("offload", 0) == 2) *offload = handle;
  *connection = new_connection(at->fd, 1);
  at->fd = -1;
  return SUCCESS;
}

result_t try_accept(void* listener, void** connection, void** offload) {
  listener_t* at = listener;
  (void)offload;
  *connection = NULL;
  if (fails("accept")) return SYSTEM_ERROR;
  if (at->calls++ < setting("slow", 0)) return SUCCESS;
  const int fd = accept4(at->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return errno == EAGAIN || errno == ECONNABORTED ? SUCCESS : SYSTEM_ERROR;
  *connection = new_connection(fd, 0);
  return SUCCESS;
}

static memory_t* keep(connection_t* of, void* data, size_t bytes, int kind) {
  memory_t* made = calloc(1, sizeof(*made));
  *made = (memory_t){.connection = of, .data = data, .bytes = bytes};
  if (kind == PTR_CUDA) made->shadow = malloc(bytes + 1);
  pthread_mutex_lock(&mutex);
  memory_t** list = &of->memory;
  if (setting("global", 0)) {
    list = &global;
    made->connection = NULL;
  }
  made->next = *list;
  *list = made;
  pthread_mutex_unlock(&mutex);
  atomic_fetch_add(&counters[REGISTRATIONS], 1);
  atomic_fetch_add(&counters[REGISTERED], 1);
  return made;
}

result_t register_memory(void* connection, void* data, size_t bytes, int kind, void** memory) {
  if (fails("regMr")) return SYSTEM_ERROR;
  if (kind != PTR_HOST && !(kind == PTR_CUDA && setting("cuda", 0)))
    return complain("regMr of a kind that it has not said it takes");
  *memory = keep(connection, data, bytes, kind);
  return SUCCESS;
}

result_t register_dmabuf(void* connection, void* data, size_t bytes, int kind, uint64_t offset,
                         int file, void** memory) {
  if (fails("regMrDmaBuf")) return SYSTEM_ERROR;
  if (kind != PTR_CUDA || !setting("dmabuf", 0))
    return complain("regMrDmaBuf of a kind that it has not said it takes");
  const size_t before = offset % (size_t)sysconf(_SC_PAGESIZE);
  void* mapping = mmap(NULL, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                       (off_t)(offset - before));
  if (mapping == MAP_FAILED) return complain("regMrDmaBuf of no file, or of another place in it");
  memory_t* made = keep(connection, data, bytes, kind);
  made->mapped = (char*)mapping + before;
  made->mapping = mapping;
  made->mapping_bytes = before + bytes;
  *memory = made;
  return SUCCESS;
}

/* Searches this connection, then the global list. NULL: not found. */
static memory_t** find(connection_t* of, void* memory) {
  for (memory_t** at = &of->memory; *at; at = &(*at)->next)
    if (*at == memory) return at;
  for (memory_t** at = &global; *at; at = &(*at)->next)
    if (*at == memory) return at;
  return NULL;
}

result_t deregister_memory(void* connection, void* memory) {
  pthread_mutex_lock(&mutex);
  memory_t** at = find(connection, memory);
  if (at) *at = ((memory_t*)memory)->next;
  pthread_mutex_unlock(&mutex);
  if (!at) return complain("deregMr of what the connection has not registered");
  memory_t* gone = memory;
  if (gone->mapping) munmap(gone->mapping, gone->mapping_bytes);
  free(gone->shadow);
  free(gone);
  atomic_fetch_sub(&counters[REGISTRATIONS], 1);
  return SUCCESS;
}

/* The registration that contains the bytes, or NULL if this connection has none. */
static memory_t* usable(connection_t* of, void* memory, const char* data, size_t bytes) {
  pthread_mutex_lock(&mutex);
  memory_t** at = find(of, memory);
  memory_t* found = at ? *at : NULL;
  pthread_mutex_unlock(&mutex);
  if (found && data >= found->data && data + bytes <= found->data + found->bytes) return found;
  complain("data outside of memory that is registered with the connection");
  return NULL;
}

/* The address of the bytes for the plugin. */
static char* place(const memory_t* where, void* data) {
  return where->mapped ? where->mapped + ((char*)data - where->data) : data;
}

static request_t* new_request(connection_t* of) {
  for (int i = 0; i < MAX_REQUESTS; ++i) {
    request_t* each = &of->requests[i];
    if (each->used) continue;
    *each = (request_t){.of = of, .used = 1};
    return each;
  }
  complain("more requests of a connection than NCCL makes");
  return NULL;
}

/* Of `bytes`, how many this process may move now: pace=N is N MB/s of all its connections. */
static size_t allowed(size_t bytes) {
  static double tokens = 0, last = 0;
  const int pace = setting("pace", 0);
  if (pace == 0) return bytes;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
  pthread_mutex_lock(&mutex);
  tokens += last == 0 ? 0 : (seconds - last) * pace * 1e6;
  if (tokens > 65536) tokens = 65536;
  last = seconds;
  const size_t granted = tokens < (double)bytes ? (size_t)tokens : bytes;
  tokens -= (double)granted;
  pthread_mutex_unlock(&mutex);
  return granted;
}

/* Moves up to `bytes` through the socket. Returns the number moved, or -1: failed or closed. */
static ssize_t move(connection_t* of, void* data, size_t bytes) {
  const size_t wanted = bytes;
  bytes = allowed(bytes);
  if (bytes == 0 && wanted != 0) return 0;
  const ssize_t moved =
      of->sends ? send(of->fd, data, bytes, MSG_NOSIGNAL) : recv(of->fd, data, bytes, 0);
  if (moved < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  return moved == 0 && bytes != 0 && !of->sends ? -1 : moved;
}

/* Moves as much of one request as the socket permits now. */
static result_t advance(connection_t* of, request_t* one) {
  while (one->framed < sizeof(frame_t)) {
    const ssize_t moved = move(of, (char*)&one->frame + one->framed, sizeof(frame_t) - one->framed);
    if (moved < 0) return REMOTE;
    if (moved == 0) return SUCCESS;
    one->framed += (size_t)moved;
  }
  one->bytes = one->frame.bytes;
  if (one->bytes > one->room) return INTERNAL_ERROR;
  while (one->moved < one->bytes) {
    const ssize_t moved = move(of, one->data + one->moved, one->bytes - one->moved);
    if (moved < 0) return REMOTE;
    if (moved == 0) return SUCCESS;
    one->moved += (size_t)moved;
  }
  one->done = 1;
  /* flip=N: a bit flips in every message of N bytes or more that arrives. */
  const int flip = setting("flip", 0);
  if (flip > 0 && !of->sends && one->bytes >= (size_t)flip) one->data[one->bytes / 2] ^= 4;
  return SUCCESS;
}

/* Advances the requests in order, as far as the socket permits. */
static result_t advance_all(connection_t* of) {
  for (; of->first < of->next; ++of->first) {
    request_t* one = of->queue[of->first % MAX_REQUESTS];
    const result_t result = advance(of, one);
    if (result != SUCCESS) return result;
    if (!one->done) break;
  }
  return SUCCESS;
}

static result_t start(connection_t* of, void* data, size_t bytes, void* memory, void** request) {
  *request = NULL;
  if (of->refusals++ < setting("null", 0)) return SUCCESS;
  of->refusals = 0;
  memory_t* where = usable(of, memory, data, bytes);
  request_t* made = where ? new_request(of) : NULL;
  if (!made) return INVALID_ARGUMENT;
  made->data = where->shadow && !of->sends ? where->shadow + ((char*)data - where->data)
                                           : place(where, data);
  made->room = bytes;
  made->frame.bytes = of->sends ? bytes : 0;
  of->queue[of->next++ % MAX_REQUESTS] = made;
  *request = made;
  return SUCCESS;
}

result_t start_send(void* connection, void* data, size_t bytes, void* memory, void** request) {
  connection_t* of = connection;
  if (fails("isend")) return SYSTEM_ERROR;
  if (!of->sends) return complain("isend on a connection that receives");
  return start(of, data, bytes, memory, request);
}

result_t start_receive(void* connection, int count, void** data, size_t bytes, void** memory,
                       void** request) {
  connection_t* of = connection;
  if (fails("irecv")) return SYSTEM_ERROR;
  if (of->sends) return complain("irecv on a connection that sends");
  if (count != 1) return complain("irecv of several, where maxRecvs is 1");
  return start(of, data[0], bytes, memory[0], request);
}

result_t start_flush(void* connection, int count, void** data, int* bytes, void** memory,
                     void** request) {
  connection_t* of = connection;
  *request = NULL;
  if (fails("iflush")) return SYSTEM_ERROR;
  memory_t* where = count == 1 ? usable(of, memory[0], data[0], (size_t)bytes[0]) : NULL;
  if (!where || !where->shadow) return complain("iflush of no memory of a GPU");
  request_t* made = new_request(of);
  if (!made) return INTERNAL_ERROR;
  memcpy(place(where, data[0]), where->shadow + ((char*)data[0] - where->data), (size_t)bytes[0]);
  made->done = made->flushes = 1;
  atomic_fetch_add(&counters[FLUSHES], 1);
  *request = made;
  return SUCCESS;
}

result_t test_request(void* request, int* done, int* bytes) {
  request_t* one = request;
  *done = 0;
  if (!one->used) return complain("test of a request that was done");
  if (fails("test")) return SYSTEM_ERROR;
  connection_t* of = one->of;
  if (!of->sends && !one->flushes && one->tests++ < setting("lag", 0)) return SUCCESS;
  const result_t result = one->done ? SUCCESS : advance_all(of);
  if (!one->done) return result;
  *done = 1;
  one->used = 0;
  if (bytes) *bytes = (int)one->bytes - (!of->sends && !one->flushes && setting("short", 0));
  return SUCCESS;
}

static result_t end(connection_t* of) {
  if (of->memory) complain("a connection is closed that memory is registered with");
  close(of->fd);
  free(of);
  atomic_fetch_sub(&counters[CONNECTIONS], 1);
  return SUCCESS;
}

result_t close_send(void* connection) {
  if (!((connection_t*)connection)->sends) return complain("closeSend of what receives");
  return end(connection);
}

result_t close_receive(void* connection) {
  if (((connection_t*)connection)->sends) return complain("closeRecv of what sends");
  return end(connection);
}

result_t close_listener(void* listener) {
  close(((listener_t*)listener)->fd);
  free(listener);
  atomic_fetch_sub(&counters[CONNECTIONS], 1);
  return SUCCESS;
}
