/* SPDX-License-Identifier: Apache-2.0 */
/* Event descriptors of NCCL's profiler interface, versions 1 to 6, in plain C. Written from
 * NVIDIA's published headers profiler_v1.h to profiler_v6.h, independently of the library's own
 * declarations (collectives/profiler/abi.h), so that an error in one shows against the other.
 */
#ifndef RONDO_TEST_PROFILER_DESCRIPTORS_H_
#define RONDO_TEST_PROFILER_DESCRIPTORS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coll1 {
  const char* name;
  uint64_t commHash;
  uint64_t seqNumber;
  uint8_t func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t trafficBytes;
  uint8_t nMaxChannels;
  uint8_t nWarps;
  uint8_t algo;
  uint8_t proto;
  int isCollnet;
  int isNvls;
};
struct coll2 {
  const char* name;
  uint64_t commHash;
  uint64_t seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  size_t trafficBytes;
  uint8_t nMaxChannels;
  uint8_t nWarps;
  const char* algo;
  const char* proto;
};
struct coll3 {
  const char* name;
  uint64_t commHash;
  uint64_t seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nMaxChannels;
  uint8_t nWarps;
  const char* algo;
  const char* proto;
};
struct coll4 {
  uint64_t seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nChannels;
  uint8_t nWarps;
  const char* algo;
  const char* proto;
};
struct coll5 {
  uint64_t seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nChannels;
  uint8_t nWarps;
  const char* algo;
  const char* proto;
  void* parentGroup;
};

struct p2p1 {
  const char* name;
  uint64_t commHash;
  uint8_t func;
  void* buff;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct p2p2 {
  const char* name;
  uint64_t commHash;
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
};
struct p2p4 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
};
struct p2p5 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void* parentGroup;
};

#define RONDO_DESCRIPTOR(NUMBER, COLL, P2P) \
  typedef struct {                          \
    uint8_t type;                           \
    void* parentObj;                        \
    int rank;                               \
    union {                                 \
      struct COLL coll;                     \
      struct P2P p2p;                       \
    };                                      \
  } descriptor##NUMBER##_t
RONDO_DESCRIPTOR(1, coll1, p2p1);
RONDO_DESCRIPTOR(2, coll2, p2p2);
RONDO_DESCRIPTOR(3, coll3, p2p2);
RONDO_DESCRIPTOR(4, coll4, p2p4);

typedef struct {
  uint64_t type;
  void* parentObj;
  int rank;
  union {
    struct {
      bool graphCaptured;
      int groupDepth;
    } groupApi;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool graphCaptured;
    } collApi;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      void* stream;
      bool graphCaptured;
    } p2pApi;
    struct coll5 coll;
    struct p2p5 p2p;
  };
} descriptor5_t; /* and version 6 */

#endif
