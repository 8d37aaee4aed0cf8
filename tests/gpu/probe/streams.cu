// Streams: memory operations in graphs; how many streams may wait before others stand still.
#include <unistd.h>

#include <vector>

#include "probe.h"

namespace probe {
namespace {

__global__ void count_up(unsigned* at) { *at += 1; }

struct Flags {
  volatile std::uint32_t* host;
  CUdeviceptr device;
};
Flags new_flags() {
  void *host = nullptr, *device = nullptr;
  PROBE(cudaHostAlloc(&host, 1 << 16, cudaHostAllocMapped));
  for (int i = 0; i < 1 << 14; ++i) static_cast<std::uint32_t*>(host)[i] = 0;
  PROBE(cudaHostGetDevicePointer(&device, host, 0));
  return {static_cast<std::uint32_t*>(host), reinterpret_cast<CUdeviceptr>(device)};
}

}  // namespace

void ask_graph_memory_operations(Answer& answer) {
  const auto wait = PROBE_ENTRY(cuStreamWaitValue32);
  const auto write = PROBE_ENTRY(cuStreamWriteValue32);
  const Flags flags = new_flags();
  cudaStream_t stream;
  PROBE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  unsigned* count = nullptr;
  PROBE(cudaMalloc(&count, sizeof(unsigned)));
  PROBE(cudaMemset(count, 0, sizeof(unsigned)));
  PROBE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  // A flag that resets itself: waits for 1, runs, sets 0 and the answer.
  const CUresult waited = wait(stream, flags.device, 1, CU_STREAM_WAIT_VALUE_EQ);
  count_up<<<1, 1, 0, stream>>>(count);
  const CUresult reset = write(stream, flags.device, 0, 0);
  const CUresult told = write(stream, flags.device + 64, 1, 0);
  cudaGraph_t graph;
  PROBE(cudaStreamEndCapture(stream, &graph));
  answer.put("capture_wait", static_cast<double>(waited));
  answer.put("capture_write", static_cast<double>(reset == CUDA_SUCCESS ? told : reset));
  if (waited != CUDA_SUCCESS || reset != CUDA_SUCCESS) return;
  cudaGraphExec_t executable;
  PROBE(cudaGraphInstantiate(&executable, graph, 0));
  constexpr int kReplays = 1000;
  const double begin = now_seconds();
  for (int i = 0; i < kReplays; ++i) {
    PROBE(cudaGraphLaunch(executable, stream));
    flags.host[0] = 1;
    while (flags.host[16] == 0) {
    }
    flags.host[16] = 0;
  }
  answer.put("replay_round_trip_us", (now_seconds() - begin) / kReplays * 1e6);
  unsigned counted = 0;
  PROBE(cudaMemcpy(&counted, count, sizeof(counted), cudaMemcpyDefault));
  answer.put("replays_seen", counted);
}

// `waiting` streams wait for a flag; does another stream still run a kernel within 2 s?
void ask_waiting_streams(Answer& answer) {
  const auto wait = PROBE_ENTRY(cuStreamWaitValue32);
  const Flags flags = new_flags();
  unsigned* count = nullptr;
  PROBE(cudaMalloc(&count, sizeof(unsigned)));
  std::vector<cudaStream_t> streams;
  int stuck_at = 0;
  for (int waiting = 0; waiting <= 48 && stuck_at == 0; ++waiting) {
    cudaStream_t stream;
    PROBE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    count_up<<<1, 1, 0, stream>>>(count);
    const double begin = now_seconds();
    while (cudaStreamQuery(stream) == cudaErrorNotReady && stuck_at == 0)
      if (now_seconds() - begin > 2) stuck_at = waiting;
    PROBE_DRIVER(wait(stream, flags.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
    streams.push_back(stream);
  }
  flags.host[0] = 1;
  PROBE(cudaDeviceSynchronize());
  const char* connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  answer.put("max_connections", std::string(connections ? connections : "default"));
  answer.put("waiting_streams_that_block_others", stuck_at);  // 0: not even 48
}

}  // namespace probe
