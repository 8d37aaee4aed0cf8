/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_library LIBRARY: opens a packaged libnccl.so.2 for CUDA by its path and prints the version
 * that ncclGetVersion gives. Where no GPU can be used, ranks use host memory, and a rank that asks
 * for a GPU gets an error that says why there is none. Exits 0 if all of that is so. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "rondo.h"

#define EXPECT(condition)                                                                \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "cuda_library.c:%d: not so: %s; the library says: %s\n", __LINE__, \
              #condition, last_error == NULL ? "nothing" : last_error(NULL));            \
      return 1;                                                                          \
    }                                                                                    \
  } while (0)

typedef const char* (*LastError)(ncclComm_t);

int main(int argc, char** argv) {
  LastError last_error = NULL;
  EXPECT(argc == 2);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
#define FUNCTION(name) __typeof__(&name) call_##name = (__typeof__(&name))dlsym(library, #name)
  FUNCTION(ncclGetLastError);
  last_error = call_ncclGetLastError;
  FUNCTION(ncclGetVersion);
  FUNCTION(ncclGetUniqueId);
  FUNCTION(ncclAllReduce);
  FUNCTION(ncclCommDestroy);
  FUNCTION(rondoGetVersion);
  FUNCTION(rondoCommInitRankOptions);

  int version = 0;
  EXPECT(call_ncclGetVersion(&version) == ncclSuccess && version == 22809);
  printf("rondo %s, as NCCL %d: %s\n", call_rondoGetVersion(), version, argv[1]);

  ncclUniqueId id;
  ncclComm_t comm = NULL;
  rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
  options.device = rondoDeviceCuda;
  EXPECT(call_ncclGetUniqueId(&id) == ncclSuccess);
  const ncclResult_t asked = call_rondoCommInitRankOptions(&comm, 1, id, 0, NULL, &options);
  if (asked == ncclSuccess) {
    printf("a rank on a GPU\n");
    return call_ncclCommDestroy(comm) != ncclSuccess;
  }
  const char* why = last_error(NULL);
  EXPECT(asked == ncclInvalidUsage);
  EXPECT(strstr(why, "rondoDeviceCuda was requested, but no CUDA device can be used: ") != NULL);
  EXPECT(strstr(why, "; use rondoDeviceHost") != NULL);
  printf("%s\n", why);

  float values[4] = {1, 2, 3, 4};
  EXPECT(call_ncclGetUniqueId(&id) == ncclSuccess);
  EXPECT(call_rondoCommInitRankOptions(&comm, 1, id, 0, NULL, NULL) == ncclSuccess);
  EXPECT(call_ncclAllReduce(values, values, 4, ncclFloat32, ncclSum, comm, NULL) == ncclSuccess);
  EXPECT(values[0] == 1 && values[3] == 4);
  EXPECT(call_ncclCommDestroy(comm) == ncclSuccess);
  return 0;
}
