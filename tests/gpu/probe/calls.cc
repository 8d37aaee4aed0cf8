// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace probe {

std::string name_of(cudaError_t error) { return cudaGetErrorName(error); }
std::string name_of(CUresult error) {
  const char* name = nullptr;
  void* const entry = driver_entry("cuGetErrorName");
  if (entry == nullptr ||
      reinterpret_cast<decltype(&cuGetErrorName)>(entry)(error, &name) != CUDA_SUCCESS)
    return "driver error " + std::to_string(static_cast<int>(error));
  return name;
}

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  give_up(std::string(call) + ": " + name_of(error) + " (" + cudaGetErrorString(error) + ")");
}
void check(CUresult error, const char* call) {
  if (error != CUDA_SUCCESS) give_up(std::string(call) + ": " + name_of(error));
}

void* driver_entry(const char* name) {
  static const bool ready = [] {  // the driver's functions need a current context
    PROBE(cudaFree(nullptr));
    return true;
  }();
  static_cast<void>(ready);
  constexpr unsigned kVersion = 12010;  // the version that introduced multicast objects
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &entry, kVersion, cudaEnableDefault, &found);
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? entry : nullptr;
}

int attribute(CUdevice_attribute which, int device) {
  int value = -1;
  const auto get = PROBE_ENTRY(cuDeviceGetAttribute);
  return get(&value, which, device) == CUDA_SUCCESS ? value : -1;
}
unsigned multiprocessors() {
  const int count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  if (count <= 0) give_up("the device does not tell its multiprocessors");
  return static_cast<unsigned>(count);
}
int device_count() {
  int count = 0;
  PROBE(cudaGetDeviceCount(&count));
  return count;
}

double now_seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  PROBE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
cudaEvent_t new_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  PROBE(cudaEventCreateWithFlags(&event, flags));
  return event;
}

void* new_pinned_bytes(std::size_t bytes) {
  void* at = nullptr;
  PROBE(cudaHostAlloc(&at, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  std::memset(at, 0, bytes);
  return at;
}

bool comes(const std::uint32_t* at, std::uint32_t value, double seconds) {
  const double end = now_seconds() + seconds;
  while (peek(at) < value)
    if (now_seconds() > end) return false;
  return true;
}
bool is_over(cudaStream_t stream, double seconds) {
  const double end = now_seconds() + seconds;
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaSuccess) return true;
    if (error != cudaErrorNotReady) check(error, "cudaStreamQuery");
    if (now_seconds() > end) return false;
  }
}

cudaError_t launch_entry(const Launch& launch, const void* kernel, void** arguments) {
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.grid);
  config.blockDim = dim3(launch.block);
  config.dynamicSmemBytes = launch.shared;
  config.stream = launch.stream;
  config.attrs = attributes;
  if (launch.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  if (launch.remote_domain) {
    attributes[config.numAttrs].id = cudaLaunchAttributeMemSyncDomain;
    attributes[config.numAttrs++].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  }
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

double median(double* values, int count) {
  std::sort(values, values + count);
  return values[count / 2];
}

}  // namespace probe
