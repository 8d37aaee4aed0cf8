/* SPDX-License-Identifier: Apache-2.0 */
/* A network plugin for tests, with all versions of NCCL's interface or only RONDO_ONLY_VERSION. It
 * checks that its caller keeps the interface's rules, and misbehaves on request: test_plugin.h. */
#include "tests/support/plugin/test_plugin.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/plugin/behaviour.h"
#include "tests/support/plugin/connections.h"

#define EXPORT __attribute__((visibility("default")))
#define NAME "RondoTest"

static char kName[] = "test0";

static result_t begin(logger_t log) {
  if (fails("init")) return SYSTEM_ERROR;
  atomic_fetch_add(&counters[INITS], 1);
  log(3, 1UL, "test_plugin.c", 1, "%s starts, as %d", NAME, 1);
  return SUCCESS;
}
static result_t init8(logger_t log) { return begin(log); }
static result_t init10(logger_t log, profiler_t profile) {
  void* event = NULL;
  if (profile(&event, 0, NULL, 0, NULL) != SUCCESS) return INTERNAL_ERROR;
  return begin(log);
}
static result_t init11(void** context, uint64_t communicator, config_t* config, logger_t log,
                       profiler_t profile) {
  const result_t result = init10(log, profile);
  if (result != SUCCESS) return result;
  if (config->trafficClass != -1) return INVALID_ARGUMENT;
  uint64_t* made = malloc(sizeof(*made));
  *made = communicator;
  *context = made;
  atomic_fetch_add(&counters[CONTEXTS], 1);
  return SUCCESS;
}
static result_t finalize(void* context) {
  free(context);
  atomic_fetch_sub(&counters[CONTEXTS], 1);
  return SUCCESS;
}

static result_t devices(int* count) {
  if (fails("devices")) return SYSTEM_ERROR;
  *count = setting("devices", 1);
  return SUCCESS;
}

static int memory_kinds(void) {
  return PTR_HOST | (setting("cuda", 0) ? PTR_CUDA : 0) | (setting("dmabuf", 0) ? PTR_DMABUF : 0);
}

/* The properties have the same names in every version, at different offsets. */
#define FILL(p)                                                 \
  if (fails("getProperties")) return SYSTEM_ERROR;              \
  memset(p, 0, sizeof(*p));                                     \
  p->name = kName;                                              \
  p->ptrSupport = memory_kinds();                               \
  p->regIsGlobal = setting("global", 0);                        \
  p->speed = 10000;                                             \
  p->port = 1;                                                  \
  p->maxComms = 1024;                                           \
  p->maxRecvs = 1;                                              \
  p->netDeviceType = device == 0 && setting("offload", 0) == 1; \
  p->netDeviceVersion = -1;
#define FILL_SINCE_9(p)       \
  FILL(p)                     \
  p->vProps.ndevs = 1;        \
  p->vProps.devs[0] = device; \
  p->maxP2pBytes = 1 << 30;   \
  p->maxCollBytes = 1 << 30;

static result_t properties8(int device, properties8_t* p) {
  FILL(p)
  return SUCCESS;
}
static result_t properties9(int device, properties9_t* p) {
  FILL_SINCE_9(p)
  return SUCCESS;
}
static result_t properties11(int device, properties11_t* p) {
  FILL_SINCE_9(p)
  p->maxMultiRequestSize = 1;
  return SUCCESS;
}
static result_t properties12(int device, properties12_t* p) {
  FILL_SINCE_9(p)
  p->maxMultiRequestSize = 1;
  p->railId = p->planeId = -1;
  return SUCCESS;
}

static int is_device(int device) { return device >= 0 && device < setting("devices", 1); }
static result_t listen8(int device, void* handle, void** listener) {
  return is_device(device) ? start_listening(handle, listener) : INVALID_ARGUMENT;
}
static result_t listen11(void* context, int device, void* handle, void** listener) {
  return context ? listen8(device, handle, listener) : (result_t)complain("listen without context");
}
static result_t connect8(int device, void* handle, void** connection, void** offload) {
  return is_device(device) ? try_connect(handle, connection, offload) : INVALID_ARGUMENT;
}
static result_t connect10(int device, config_t* config, void* handle, void** connection,
                          void** offload) {
  if (config->trafficClass != -1) return INVALID_ARGUMENT;
  return connect8(device, handle, connection, offload);
}
static result_t connect11(void* context, int device, void* handle, void** connection,
                          void** offload) {
  if (!context) return complain("connect without context");
  return connect8(device, handle, connection, offload);
}

static result_t send8(void* c, void* data, int bytes, int tag, void* memory, void** request) {
  (void)tag;
  return start_send(c, data, (size_t)bytes, memory, request);
}
static result_t send9(void* c, void* data, size_t bytes, int tag, void* memory, void** request) {
  (void)tag;
  return start_send(c, data, bytes, memory, request);
}
static result_t send10(void* c, void* data, size_t bytes, int tag, void* memory, void* event,
                       void** request) {
  (void)tag;
  return event ? (result_t)complain("an event of no profiler")
               : start_send(c, data, bytes, memory, request);
}
static result_t receive8(void* c, int count, void** data, int* bytes, int* tags, void** memory,
                         void** request) {
  (void)tags;
  return start_receive(c, count, data, (size_t)bytes[0], memory, request);
}
static result_t receive9(void* c, int count, void** data, size_t* bytes, int* tags, void** memory,
                         void** request) {
  (void)tags;
  return start_receive(c, count, data, bytes[0], memory, request);
}
static result_t receive10(void* c, int count, void** data, size_t* bytes, int* tags, void** memory,
                          void** events, void** request) {
  (void)tags;
  return events[0] ? (result_t)complain("an event of no profiler")
                   : start_receive(c, count, data, bytes[0], memory, request);
}

#if defined(RONDO_ONLY_VERSION)
#define HAS(version) ((version) == RONDO_ONLY_VERSION)
#else
#define HAS(version) 1
#endif

#define TABLE(init_, properties_, listen_, connect_, send_, receive_)                              \
  .name = NAME, .init = init_, .devices = devices, .getProperties = properties_,                   \
  .listen = listen_, .connect = connect_, .accept = try_accept, .regMr = register_memory,          \
  .regMrDmaBuf = register_dmabuf, .deregMr = deregister_memory, .isend = send_, .irecv = receive_, \
  .iflush = start_flush, .test = test_request, .closeSend = close_send,                            \
  .closeRecv = close_receive, .closeListen = close_listener

#if HAS(8)
EXPORT const net8_t ncclNetPlugin_v8 = {
    TABLE(init8, properties8, listen8, connect8, send8, receive8)};
#endif
#if HAS(9)
EXPORT const net9_t ncclNetPlugin_v9 = {
    TABLE(init8, properties9, listen8, connect8, send9, receive9)};
#endif
#if HAS(10)
EXPORT const net10_t ncclNetPlugin_v10 = {
    TABLE(init10, properties9, listen8, connect10, send10, receive10)};
#endif
#if HAS(11)
EXPORT const net11_t ncclNetPlugin_v11 = {
    TABLE(init11, properties11, listen11, connect11, send10, receive10), .finalize = finalize};
#endif
#if HAS(12)
EXPORT const net12_t ncclNetPlugin_v12 = {
    TABLE(init11, properties12, listen11, connect11, send10, receive10), .finalize = finalize};
#endif

/* References everything, because the compiler warns about unused parts of excluded versions. */
EXPORT const void* const rondo_test_plugin_all[] = {
    devices,      init8,   init11,   finalize, properties8, properties9, properties11,
    properties12, listen8, listen11, connect8, connect10,   connect11,   send8,
    send9,        send10,  receive8, receive9, receive10};
