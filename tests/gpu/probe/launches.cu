// SPDX-License-Identifier: Apache-2.0
// Cost of starting work: launches, graphs, events, host functions; and the device's clocks.
#include <vector>

#include "asks.h"
#include "bounded.h"

namespace probe {
namespace {

// Its own begin and end, on the device's clock.
__global__ void note_times(std::uint64_t* at) {
  at[0] = gpu::timer_ns();
  at[1] = gpu::timer_ns();
}

// Smallest step, in nanoseconds, of the clock used by waits; and cycles in a period of it.
__global__ void watch_clocks(std::uint64_t* step, std::uint64_t* ns, std::uint64_t* cycles) {
  const std::uint64_t begin = gpu::timer_ns(), begin_cycles = clock_cycles();
  std::uint64_t last = begin, minimum = ~0ull;
  while (last - begin < 5 * kMillisecond) {
    const std::uint64_t now = gpu::timer_ns();
    if (now != last && now - last < minimum) minimum = now - last;
    last = now;
  }
  *step = minimum;
  *ns = last - begin;
  *cycles = clock_cycles() - begin_cycles;
}

void ask_clocks() {
  auto* const at = new_pinned<std::uint64_t>(3);
  watch_clocks<<<1, 1>>>(at, at + 1, at + 2);
  PROBE(cudaDeviceSynchronize());
  put("timer_step", static_cast<double>(at[0]), "ns");
  put("clock_under_load", static_cast<double>(at[2]) / static_cast<double>(at[1]) * 1e3, "MHz");
}

template <class Body>
double median_us(int rounds, Body body) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const double begin = now_seconds();
    body();
    times.push_back(since_us(begin));
  }
  return median(times.data(), rounds);
}

// Microseconds per call in a long sequence: of the calls alone, and until all of them have run.
template <class Body>
void time_many(const std::string& name, cudaStream_t stream, int rounds, Body body) {
  for (int i = 0; i < 10; ++i) body();
  PROBE(cudaStreamSynchronize(stream));
  const double begin = now_seconds();
  for (int i = 0; i < rounds; ++i) body();
  put(name + "_call", since_us(begin) / rounds, "us");
  PROBE(cudaStreamSynchronize(stream));
  put(name + "_total", since_us(begin) / rounds, "us");
}

void ask_kernels(cudaStream_t stream) {
  auto* const word = new_pinned<std::uint32_t>(1);
  const auto run = [&] { set_word<<<1, 1, 0, stream>>>(word, 1); };
  time_many("kernel", stream, 500, run);
  put("launch_to_synchronize",
      median_us(200,
                [&] {
                  run();
                  PROBE(cudaStreamSynchronize(stream));
                }),
      "us");
  put("launch_to_word_seen",
      median_us(200,
                [&] {
                  poke(word, 0u);
                  run();
                  comes(word, 1, 1);
                }),
      "us");
  PROBE(cudaStreamSynchronize(stream));

  constexpr int kChain = 50;
  auto* const times = new_device<std::uint64_t>(2 * kChain);
  std::vector<std::uint64_t> seen(2 * kChain);
  const auto gap = [&](const char* name) {
    PROBE(cudaStreamSynchronize(stream));
    PROBE(cudaMemcpy(seen.data(), times, seen.size() * 8, cudaMemcpyDefault));
    std::vector<double> gaps;
    for (int i = 1; i < kChain; ++i)
      gaps.push_back(static_cast<double>(seen[2 * i]) - static_cast<double>(seen[2 * i - 1]));
    put(name, median(gaps.data(), kChain - 1), "ns");
  };
  const auto chain = [&] {
    for (int i = 0; i < kChain; ++i) note_times<<<1, 1, 0, stream>>>(times + 2 * i);
  };
  chain();
  PROBE(cudaStreamSynchronize(stream));
  delay<<<1, 1, 0, stream>>>(2 * kMillisecond);  // so that all are enqueued before the first begins
  chain();
  gap("gap_between_kernels");
  const cudaGraphExec_t graph = captured(stream, chain);
  PROBE(cudaGraphLaunch(graph, stream));
  PROBE(cudaStreamSynchronize(stream));
  PROBE(cudaGraphLaunch(graph, stream));
  gap("gap_between_kernels_of_a_graph");
}

void ask_graphs(cudaStream_t stream) {
  for (const int kernels : {1, 10, 100}) {
    const cudaGraphExec_t graph = captured(stream, [&] {
      for (int i = 0; i < kernels; ++i) nothing<<<1, 32, 0, stream>>>();
    });
    time_many(print("graph_of_%d", kernels), stream, 100,
              [&] { PROBE(cudaGraphLaunch(graph, stream)); });
    put(print("graph_of_%d_to_synchronize", kernels),
        median_us(50,
                  [&] {
                    PROBE(cudaGraphLaunch(graph, stream));
                    PROBE(cudaStreamSynchronize(stream));
                  }),
        "us");
  }
}

void ask_events(cudaStream_t stream) {
  const cudaStream_t other = new_stream();
  const cudaEvent_t event = new_event();
  time_many("record", stream, 500, [&] { PROBE(cudaEventRecord(event, stream)); });
  time_many("wait_for_event", stream, 500, [&] { PROBE(cudaStreamWaitEvent(stream, event, 0)); });
  time_many("kernel_record_wait_other", other, 300, [&] {
    nothing<<<1, 32, 0, stream>>>();
    PROBE(cudaEventRecord(event, stream));
    PROBE(cudaStreamWaitEvent(other, event, 0));
    nothing<<<1, 32, 0, other>>>();
  });
  PROBE(cudaEventSynchronize(event));
  put("query_event", median_us(200, [&] { PROBE(cudaEventQuery(event)); }), "us");
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  put("is_capturing", median_us(200, [&] { PROBE(cudaStreamIsCapturing(stream, &status)); }), "us");
  cudaPointerAttributes attributes{};
  void* const memory = new_device<char>(64);
  put("pointer_attributes",
      median_us(200, [&] { PROBE(cudaPointerGetAttributes(&attributes, memory)); }), "us");
}

// A launch on a stream of a device that is not current.
void ask_other_device() {
  if (device_count() < 2) return;
  PROBE(cudaSetDevice(1));
  const cudaStream_t there = new_stream();
  auto* const place = new_pinned<std::uint32_t>(1);
  PROBE(cudaSetDevice(0));
  set_word<<<1, 1, 0, there>>>(place, 7);
  const cudaError_t launched = cudaGetLastError();
  const cudaError_t after = cudaStreamSynchronize(there);
  const std::uint32_t word = peek(place);
  check("streams_know_their_device",
        after == cudaSuccess &&
            (launched == cudaErrorInvalidResourceHandle ? word == 0
                                                        : launched == cudaSuccess && word == 7),
        print("%s, then %s, word %u", name_of(launched).c_str(), name_of(after).c_str(), word));
}

void ask_host_functions(cudaStream_t stream) {
  auto* const word = new_pinned<std::uint32_t>(1);
  const auto function = [](void* at) {
    auto* const counted = static_cast<std::uint32_t*>(at);
    poke(counted, *counted + 1);
  };
  put("host_function_to_word_seen",
      median_us(100,
                [&] {
                  const std::uint32_t before = peek(word);
                  PROBE(cudaLaunchHostFunc(stream, function, word));
                  comes(word, before + 1, 1);
                }),
      "us");
  time_many("kernel_and_host_function", stream, 200, [&] {
    nothing<<<1, 32, 0, stream>>>();
    PROBE(cudaLaunchHostFunc(stream, function, word));
  });
}

}  // namespace

void ask_launches() {
  const cudaStream_t stream = new_stream();
  PROBE(cudaFree(nullptr));
  ask_clocks();
  ask_kernels(stream);
  ask_graphs(stream);
  ask_events(stream);
  ask_host_functions(stream);
  ask_other_device();
  PROBE(cudaGetLastError());
  answer("costs of launches, graphs, events and host functions");
}

}  // namespace probe
