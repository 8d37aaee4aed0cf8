// The probe: questions to a GPU that Rondo's design rests on. Depends on nothing of Rondo.
//
//   probe            asks all, each in a process of its own under `timeout -k`; JSON on stdout
//   probe NAME       asks one; prints one JSON object
// Build: nvcc -std=c++17 -O3 -arch=sm_90 tests/gpu/probe/*.cu -o probe
// A question that cannot be answered says why in "error"; it never fails the others.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace probe {

// One JSON object, filled field by field.
class Answer {
 public:
  void put(const std::string& key, double value);
  void put(const std::string& key, const std::string& value);
  std::string text() const { return "{" + fields_ + "}"; }

 private:
  void key(const std::string& name);
  std::string fields_;
};

[[noreturn]] void give_up(const std::string& why);  // prints {"error": why} and exits with 3

#define PROBE(call)                                                                  \
  do {                                                                               \
    const cudaError_t probe_error = (call);                                          \
    if (probe_error != cudaSuccess)                                                  \
      ::probe::give_up(std::string(#call) + ": " + cudaGetErrorString(probe_error)); \
  } while (0)
#define PROBE_DRIVER(call)                                             \
  do {                                                                 \
    const CUresult probe_error = (call);                               \
    if (probe_error != CUDA_SUCCESS)                                   \
      ::probe::give_up(std::string(#call) + ": driver error " +        \
                       std::to_string(static_cast<int>(probe_error))); \
  } while (0)

// A driver function by name, for the version that this file was compiled with.
template <class F>
F driver_function(const char* name) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult found;
  PROBE(
      cudaGetDriverEntryPointByVersion(name, &pointer, CUDART_VERSION, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) give_up(std::string("the driver has no ") + name);
  return reinterpret_cast<F>(pointer);
}
#define PROBE_ENTRY(name) ::probe::driver_function<decltype(&name)>(#name)

double now_seconds();

void* share_memory(std::size_t bytes);  // zeroed, shared with processes that are forked later
bool fork_all(int n, void (*run)(int rank, void* context), void* context);

// Runs body(rank) in n processes; false if any of them failed. CUDA must not have been used before.
template <class Body>
bool in_processes(int n, Body body) {
  return fork_all(
      n, [](int rank, void* context) { (*static_cast<Body*>(context))(rank); }, &body);
}

// The questions, by file.
void ask_device(Answer&);
void ask_context(Answer&);
void ask_tools(Answer&);
void ask_handoff(Answer&);
void ask_handoff_ipc(Answer&);
void ask_ipc(Answer&);
void ask_vmm(Answer&);
void ask_l2(Answer&);
void ask_graph_memory_operations(Answer&);
void ask_waiting_streams(Answer&);
void ask_torn(Answer&);
void ask_hop(Answer&);
void ask_bandwidth(Answer&);

}  // namespace probe
