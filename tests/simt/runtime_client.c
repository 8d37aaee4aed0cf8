/* SPDX-License-Identifier: Apache-2.0 */
/* A C program without kernels, as anyone would write it against NVIDIA's headers: it must run on
   the emulated libcudart.so.13 unchanged. Compiled where the headers are installed. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                             \
  do {                                                                                          \
    const cudaError_t error = (call);                                                           \
    if (error != cudaSuccess) {                                                                 \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)
#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

enum { kBytes = 100000 };

static void set_flag(void* data) { *(int*)data = 1; }

static void properties(void) {
  struct cudaDeviceProp p;
  int devices = 0, can = 0, value = 0;
  char id[32];
  CHECK(cudaGetDeviceCount(&devices));
  REQUIRE(devices >= 2);
  CHECK(cudaGetDeviceProperties(&p, 1));
  REQUIRE(strcmp(p.name, "Emulated GPU") == 0);
  REQUIRE(p.major == 9 && p.minor == 0 && p.warpSize == 32 && p.multiProcessorCount > 0);
  REQUIRE(p.totalGlobalMem > 0 && p.maxThreadsPerBlock == 1024 && p.pciBusID == 2);
  REQUIRE(p.l2CacheSize > 0 && p.maxThreadsPerMultiProcessor == 2048 && p.unifiedAddressing == 1);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  REQUIRE(value == p.multiProcessorCount);
  CHECK(cudaDeviceGetPCIBusId(id, sizeof id, 0));
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
  REQUIRE(cudaSetDevice(devices) == cudaErrorInvalidDevice);
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess);
}

static void memory_and_streams(void) {
  char *first, *second, *host;
  struct cudaPointerAttributes attributes;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  float ms = -1;
  int called = 0;
  CHECK(cudaMalloc((void**)&first, kBytes));
  CHECK(cudaMalloc((void**)&second, kBytes));
  CHECK(cudaMallocHost((void**)&host, kBytes));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int i = 0; i < kBytes; ++i) host[i] = (char)(i * 7);
  CHECK(cudaEventRecord(begin, stream));
  CHECK(cudaMemcpyAsync(first, host, kBytes, cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(second, first, kBytes, cudaMemcpyDefault, stream));
  CHECK(cudaMemsetAsync(first, 0, kBytes, stream));
  CHECK(cudaLaunchHostFunc(stream, set_flag, &called));
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventSynchronize(end));
  REQUIRE(called == 1);
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  REQUIRE(ms >= 0);
  memset(host, 1, kBytes);
  CHECK(cudaMemcpy(host, second, kBytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kBytes; ++i) REQUIRE(host[i] == (char)(i * 7));
  CHECK(cudaMemcpy(host, first, kBytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kBytes; ++i) REQUIRE(host[i] == 0);
  CHECK(cudaPointerGetAttributes(&attributes, first + 5));
  REQUIRE(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
  REQUIRE(attributes.devicePointer == first + 5 && attributes.hostPointer == NULL);
  CHECK(cudaPointerGetAttributes(&attributes, host));
  REQUIRE(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == host);
  CHECK(cudaPointerGetAttributes(&attributes, &ms));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaFree(first));
  CHECK(cudaFree(second));
  CHECK(cudaFreeHost(host));
}

static void graphs(void) {
  char *data, got = 0;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  enum cudaStreamCaptureStatus status;
  CHECK(cudaMalloc((void**)&data, 1));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMemset(data, 1, 1));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemsetAsync(data, 9, 1, stream));
  CHECK(cudaStreamIsCapturing(stream, &status));
  REQUIRE(status == cudaStreamCaptureStatusActive);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaMemcpy(&got, data, 1, cudaMemcpyDeviceToHost));
  REQUIRE(got == 1);
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(&got, data, 1, cudaMemcpyDeviceToHost));
  REQUIRE(got == 9);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  REQUIRE(cudaFree(data) == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(data));
}

int main(void) {
  properties();
  memory_and_streams();
  graphs();
  CHECK(cudaDeviceSynchronize());
  puts("ok");
  return 0;
}
