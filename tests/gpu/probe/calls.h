// SPDX-License-Identifier: Apache-2.0
// CUDA calls of the probes: an error ends the probe with its text; driver functions are looked up
// by name (no libcuda to link with); streams, events and buffers exist until the end.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "answer.h"

namespace probe {

void check(cudaError_t error, const char* call);
void check(CUresult error, const char* call);
#define PROBE(...) ::probe::check((__VA_ARGS__), #__VA_ARGS__)

std::string name_of(CUresult error);  // "CUDA_ERROR_NOT_SUPPORTED"
std::string name_of(cudaError_t error);

void* driver_entry(const char* name);  // nullptr: not in this driver; makes a context
template <class F>
F driver_function(const char* name) {
  void* const entry = driver_entry(name);
  if (entry == nullptr) unsupported(std::string("the driver has no ") + name);
  return reinterpret_cast<F>(entry);
}
#define PROBE_ENTRY(name) ::probe::driver_function<decltype(&name)>(#name)

int attribute(CUdevice_attribute which, int device = 0);  // -1: unknown to this driver
int device_count();
unsigned multiprocessors();  // of device 0
double now_seconds();
inline double since_us(double begin) { return (now_seconds() - begin) * 1e6; }

cudaStream_t new_stream();  // does not wait for the legacy stream
cudaEvent_t new_event(unsigned flags = cudaEventDisableTiming);

template <class T>
T* new_device(std::size_t count) {  // zeroed
  void* at = nullptr;
  PROBE(cudaMalloc(&at, count * sizeof(T)));
  PROBE(cudaMemset(at, 0, count * sizeof(T)));
  PROBE(cudaDeviceSynchronize());
  return static_cast<T*>(at);
}
// Pinned, zeroed; host and device use the same address (unified addressing).
void* new_pinned_bytes(std::size_t bytes);
template <class T>
T* new_pinned(std::size_t count) {
  return static_cast<T*>(new_pinned_bytes(count * sizeof(T)));
}

// Accesses of the host to memory that a device accesses at the same time.
template <class T>
T peek(const T* at) {
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
template <class T>
void poke(T* at, T value) {
  __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}
// Spins until *at >= value; false: not within `seconds`.
bool comes(const std::uint32_t* at, std::uint32_t value, double seconds);
bool is_over(cudaStream_t stream, double seconds);

// One launch, with its attributes.
struct Launch {
  unsigned grid = 1, block = 32;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false, remote_domain = false;
};
cudaError_t launch_entry(const Launch& launch, const void* kernel, void** arguments);
template <class... Parameters, class... Arguments>
cudaError_t launch(const Launch& how, void (*kernel)(Parameters...), Arguments... arguments) {
  return [&](Parameters... values) {
    void* pointers[sizeof...(Parameters) + 1] = {&values...};
    return launch_entry(how, reinterpret_cast<const void*>(kernel), pointers);
  }(arguments...);
}

// A graph of the work that `enqueue` puts on the stream.
template <class Enqueue>
cudaGraphExec_t captured(cudaStream_t stream, Enqueue enqueue) {
  PROBE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  enqueue();
  cudaGraph_t graph = nullptr;
  PROBE(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  PROBE(cudaGraphInstantiate(&executable, graph, 0));
  PROBE(cudaGraphDestroy(graph));
  return executable;
}

double median(double* values, int count);  // sorts them

}  // namespace probe
