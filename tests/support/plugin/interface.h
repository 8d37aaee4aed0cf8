// SPDX-License-Identifier: Apache-2.0
/* NCCL's network plugin interface for a plugin in C. It is written from NVIDIA's published headers
 * net_v8.h to net_v12.h, independently of the library's own declarations (transport/plugin/abi.h),
 * so that an error in one shows against the other. */
#ifndef RONDO_TEST_PLUGIN_INTERFACE_H_
#define RONDO_TEST_PLUGIN_INTERFACE_H_

#include <stddef.h>
#include <stdint.h>

enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE };
enum { PTR_HOST = 1, PTR_CUDA = 2, PTR_DMABUF = 4 };
enum { HANDLE_BYTES = 128, MAX_REQUESTS = 32 };

typedef int result_t;
typedef void (*logger_t)(int, unsigned long, const char*, int, const char*, ...);
typedef result_t (*profiler_t)(void**, int, void*, int64_t, void*);

typedef struct {
  int trafficClass;
} config_t;

typedef struct {
  int ndevs;
  int devs[4];
} virtual9_t;
typedef struct {
  int ndevs;
  int devs[8];
} virtual12_t;

/* The fields of a device, in the order of their versions. */
#define IDENTITY  \
  char* name;     \
  char* pciPath;  \
  uint64_t guid;  \
  int ptrSupport; \
  int regIsGlobal;
#define RATES        \
  int speed;         \
  int port;          \
  float latency;     \
  int maxComms;      \
  int maxRecvs;      \
  int netDeviceType; \
  int netDeviceVersion;
#define LIMITS        \
  size_t maxP2pBytes; \
  size_t maxCollBytes;
typedef struct {
  IDENTITY RATES
} properties8_t;
typedef struct {
  IDENTITY int forceFlush;
  RATES virtual9_t vProps;
  LIMITS
} properties9_t; /* 10 */
typedef struct {
  IDENTITY int forceFlush;
  RATES virtual9_t vProps;
  LIMITS int maxMultiRequestSize;
} properties11_t;
typedef struct {
  IDENTITY int forceFlush;
  RATES virtual12_t vProps;
  LIMITS int maxMultiRequestSize;
  int16_t railId;
  int16_t planeId;
} properties12_t;

/* The functions that all versions have. */
#define REGISTRATION                                                         \
  result_t (*accept)(void*, void**, void**);                                 \
  result_t (*regMr)(void*, void*, size_t, int, void**);                      \
  result_t (*regMrDmaBuf)(void*, void*, size_t, int, uint64_t, int, void**); \
  result_t (*deregMr)(void*, void*);
#define COMPLETION                                              \
  result_t (*iflush)(void*, int, void**, int*, void**, void**); \
  result_t (*test)(void*, int*, int*);                          \
  result_t (*closeSend)(void*);                                 \
  result_t (*closeRecv)(void*);                                 \
  result_t (*closeListen)(void*);                               \
  result_t (*getDeviceMr)(void*, void*, void**);                \
  result_t (*irecvConsumed)(void*, int, void*);
#define MESSAGES_SINCE_10                                             \
  result_t (*isend)(void*, void*, size_t, int, void*, void*, void**); \
  result_t (*irecv)(void*, int, void**, size_t*, int*, void**, void**, void**);

typedef struct {
  const char* name;
  result_t (*init)(logger_t);
  result_t (*devices)(int*);
  result_t (*getProperties)(int, properties8_t*);
  result_t (*listen)(int, void*, void**);
  result_t (*connect)(int, void*, void**, void**);
  REGISTRATION
  result_t (*isend)(void*, void*, int, int, void*, void**);
  result_t (*irecv)(void*, int, void**, int*, int*, void**, void**);
  COMPLETION
} net8_t;

typedef struct {
  const char* name;
  result_t (*init)(logger_t);
  result_t (*devices)(int*);
  result_t (*getProperties)(int, properties9_t*);
  result_t (*listen)(int, void*, void**);
  result_t (*connect)(int, void*, void**, void**);
  REGISTRATION
  result_t (*isend)(void*, void*, size_t, int, void*, void**);
  result_t (*irecv)(void*, int, void**, size_t*, int*, void**, void**);
  COMPLETION
  result_t (*makeVDevice)(int*, virtual9_t*);
} net9_t;

typedef struct {
  const char* name;
  result_t (*init)(logger_t, profiler_t);
  result_t (*devices)(int*);
  result_t (*getProperties)(int, properties9_t*);
  result_t (*listen)(int, void*, void**);
  result_t (*connect)(int, config_t*, void*, void**, void**);
  REGISTRATION
  MESSAGES_SINCE_10
  COMPLETION
  result_t (*makeVDevice)(int*, virtual9_t*);
} net10_t;

#define NET_SINCE_11(type, properties, virtual_device)                   \
  typedef struct {                                                       \
    const char* name;                                                    \
    result_t (*init)(void**, uint64_t, config_t*, logger_t, profiler_t); \
    result_t (*devices)(int*);                                           \
    result_t (*getProperties)(int, properties*);                         \
    result_t (*listen)(void*, int, void*, void**);                       \
    result_t (*connect)(void*, int, void*, void**, void**);              \
    REGISTRATION                                                         \
    MESSAGES_SINCE_10                                                    \
    COMPLETION                                                           \
    result_t (*makeVDevice)(int*, virtual_device*);                      \
    result_t (*finalize)(void*);                                         \
    result_t (*setNetAttr)(void*, void*);                                \
  } type
NET_SINCE_11(net11_t, properties11_t, virtual9_t);
NET_SINCE_11(net12_t, properties12_t, virtual12_t);

#endif
