// SPDX-License-Identifier: Apache-2.0
// Stream memory operations, by which processes pass work to each other: cost of a pair, what they
// order, whether graphs accept them, how many waiting streams delay others.
#include <cstdlib>
#include <vector>

#include "asks.h"
#include "bounded.h"
#include "processes.h"

namespace probe {
namespace {

struct Operations {
  decltype(&cuStreamWaitValue32) wait_entry = PROBE_ENTRY(cuStreamWaitValue32);
  decltype(&cuStreamWriteValue32) write_entry = PROBE_ENTRY(cuStreamWriteValue32);

  static CUdeviceptr at(const std::uint32_t* word) { return reinterpret_cast<CUdeviceptr>(word); }
  CUresult wait(cudaStream_t stream, const std::uint32_t* word, std::uint32_t value,
                unsigned how = CU_STREAM_WAIT_VALUE_GEQ) const {
    return wait_entry(stream, at(word), value, how);
  }
  CUresult write(cudaStream_t stream, const std::uint32_t* word, std::uint32_t value) const {
    return write_entry(stream, at(word), value, CU_STREAM_WRITE_VALUE_DEFAULT);
  }
};

// A registered memfd, as processes share it.
std::uint32_t* new_registered(std::size_t bytes) {
  void* const at = share_memory(bytes);
  PROBE(cudaHostRegister(at, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
  void* on_device = nullptr;
  PROBE(cudaHostGetDevicePointer(&on_device, at, 0));
  put("registered_at_the_same_address", on_device == at);
  if (on_device != at) unsupported("registered memory has another address on the device");
  return static_cast<std::uint32_t*>(at);
}

void time_pairs(const char* name, const Operations& operations, std::uint32_t* word) {
  constexpr std::uint32_t kPairs = 300;
  const cudaStream_t stream = new_stream();
  const double begin = now_seconds();
  for (std::uint32_t i = 1; i <= kPairs; ++i) {
    PROBE(operations.write(stream, word, i));
    PROBE(operations.wait(stream, word, i));
  }
  put(std::string("pair_call_") + name, since_us(begin) / kPairs, "us");
  PROBE(cudaStreamSynchronize(stream));
  put(std::string("pair_total_") + name, since_us(begin) / kPairs, "us");
}

// The host stores, a stream waits and answers, the host sees it.
void time_round_trips(const Operations& operations, std::uint32_t* words, bool with_kernel) {
  constexpr std::uint32_t kRounds = 300;
  const cudaStream_t stream = new_stream();
  std::uint32_t *asked = words, *answered = words + 64;
  poke(asked, 0u);
  poke(answered, 0u);
  std::vector<double> times;
  for (std::uint32_t i = 1; i <= kRounds; ++i) {
    PROBE(operations.wait(stream, asked, i));
    if (with_kernel) nothing<<<1, 32, 0, stream>>>();
    PROBE(operations.write(stream, answered, i));
    const double idle = now_seconds() + 20e-6;
    while (now_seconds() < idle) {  // the stream is waiting now
    }
    const double begin = now_seconds();
    poke(asked, i);
    if (!comes(answered, i, 1)) give_up("a stream that waits did not see the host's store in 1 s");
    times.push_back(since_us(begin));
  }
  put(with_kernel ? "host_to_stream_kernel_and_back" : "host_to_stream_and_back",
      median(times.data(), kRounds), "us");
}

__global__ void fill_words(std::uint32_t* at, unsigned count, std::uint32_t value) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) gpu::store(at + i, value);
}
__global__ void count_others(const std::uint32_t* at, unsigned count, std::uint32_t value,
                             std::uint32_t* others) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
    if (gpu::load(at + i) != value) gpu::add_relaxed<Scope::kDevice>(others, 1u);
}

// Writes of a kernel before a stream's write are visible to the host, and the other way round.
void ask_order(const Operations& operations, std::uint32_t* words) {
  constexpr std::uint32_t kRounds = 300;
  constexpr unsigned kData = 4096;
  const cudaStream_t stream = new_stream();
  auto* const data = new_pinned<std::uint32_t>(kData);
  auto* const others = new_device<std::uint32_t>(1);
  std::uint32_t *asked = words + 128, *answered = words + 192;
  std::uint64_t stale = 0;
  for (std::uint32_t i = 1; i <= kRounds; ++i) {
    fill_words<<<1, 512, 0, stream>>>(data, kData, i);
    PROBE(operations.write(stream, answered, i));
    if (!comes(answered, i, 1)) give_up("a stream's write was not seen in 1 s");
    for (unsigned w = 0; w < kData; ++w) stale += peek(data + w) != i;
  }
  put("stale_for_the_host", static_cast<double>(stale), "words");
  check("kernel_then_write", stale == 0,
        print("%.0f stale words in %u rounds", static_cast<double>(stale), kRounds));
  for (std::uint32_t i = 1; i <= kRounds; ++i) {
    const std::uint32_t value = kRounds + i;
    PROBE(operations.wait(stream, asked, i));
    count_others<<<1, 512, 0, stream>>>(data, kData, value, others);
    for (unsigned w = 0; w < kData; ++w) __atomic_store_n(data + w, value, __ATOMIC_RELAXED);
    poke(asked, i);
    PROBE(cudaStreamSynchronize(stream));
  }
  std::uint32_t unlike = 0;
  PROBE(cudaMemcpy(&unlike, others, sizeof(unlike), cudaMemcpyDefault));
  put("stale_for_the_kernel", unlike, "words");
  check("write_then_kernel", unlike == 0, print("%u stale words in %u rounds", unlike, kRounds));
}

// The other wait conditions: equal, and any of some bits.
void ask_conditions(const Operations& operations, std::uint32_t* words) {
  const cudaStream_t stream = new_stream();
  std::uint32_t* const word = words + 256;
  const auto passes = [&](std::uint32_t holds, std::uint32_t value, unsigned how) {
    poke(word, holds);
    PROBE(operations.wait(stream, word, value, how));
    const bool passed = is_over(stream, 0.02);
    poke(word, value);  // which ends each of them
    PROBE(cudaStreamSynchronize(stream));
    return passed;
  };
  const bool well =
      passes(7, 2, CU_STREAM_WAIT_VALUE_AND) && !passes(5, 2, CU_STREAM_WAIT_VALUE_AND) &&
      passes(3, 3, CU_STREAM_WAIT_VALUE_EQ) && !passes(4, 3, CU_STREAM_WAIT_VALUE_EQ) &&
      !passes(2, 3, CU_STREAM_WAIT_VALUE_GEQ) && passes(0x7fffffff, 3, CU_STREAM_WAIT_VALUE_GEQ);
  check("conditions", well, well ? "all as documented" : "some condition is another");
}

}  // namespace

void ask_stream_memory() {
  const Operations operations;
  std::uint32_t* const words = new_registered(1 << 16);
  set_word<<<1, 1>>>(words, 0);
  nothing<<<1, 32>>>();
  PROBE(cudaDeviceSynchronize());
  time_pairs("registered", operations, words + 320);
  time_pairs("device", operations, new_device<std::uint32_t>(64));
  time_round_trips(operations, words, false);
  time_round_trips(operations, words, true);
  ask_order(operations, words);
  ask_conditions(operations, words);
  PROBE(cudaGetLastError());
  answer("cost and order of stream memory operations on registered memory");
}

void ask_stream_memory_graphs() {
  const Operations operations;
  std::uint32_t* const words = new_registered(4096);
  auto* const count = new_device<std::uint32_t>(1);
  const cudaStream_t stream = new_stream();
  add_one<<<1, 1, 0, stream>>>(count);
  PROBE(cudaStreamSynchronize(stream));
  PROBE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  // A flag that resets itself: waits for 1, runs, sets 0, answers.
  const CUresult waited = operations.wait(stream, words, 1, CU_STREAM_WAIT_VALUE_EQ);
  add_one<<<1, 1, 0, stream>>>(count);
  const CUresult reset = operations.write(stream, words, 0);
  const CUresult written = operations.write(stream, words + 64, 1);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  put("capture_of_a_wait", name_of(waited));
  put("capture_of_a_write", name_of(reset == CUDA_SUCCESS ? written : reset));
  if (waited != CUDA_SUCCESS || reset != CUDA_SUCCESS || written != CUDA_SUCCESS ||
      ended != cudaSuccess) {
    check("captured", false, name_of(waited) + ", " + name_of(ended));
    return answer("captures do not take stream memory operations");
  }
  cudaGraphExec_t executable = nullptr;
  PROBE(cudaGraphInstantiate(&executable, graph, 0));
  constexpr std::uint32_t kReplays = 300;
  const double begin = now_seconds();
  std::uint32_t answered = 0;
  for (std::uint32_t i = 0; i < kReplays; ++i) {
    PROBE(cudaGraphLaunch(executable, stream));
    poke(words, 1u);
    if (!comes(words + 64, 1, 0.5)) break;
    poke(words + 64, 0u);
    ++answered;
  }
  put("replay_round_trip", since_us(begin) / kReplays, "us");
  poke(words, 1u);
  const bool over = is_over(stream, 1);
  std::uint32_t counted = 0;
  if (over) PROBE(cudaMemcpy(&counted, count, sizeof(counted), cudaMemcpyDefault));
  check("captured", over && answered == kReplays && counted == kReplays + 1,
        print("%u of %u replays answered, the kernel ran %u times", answered, kReplays,
              counted == 0 ? 0 : counted - 1));
  answer("stream memory operations as nodes of graphs");
}

// N streams wait for a flag; does another one still run a kernel within half a second?
void ask_waiting_streams() {
  constexpr int kMax = 64;
  struct Answer {
    int stuck_at;
  };
  const char* const settings[] = {nullptr, "1", "32"};
  for (const char* connections : settings) {
    auto* const answer = static_cast<Answer*>(share_memory(sizeof(Answer)));
    in_processes(1, [&](int) {
      unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
      if (connections != nullptr) setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
      const Operations operations;
      auto* const flag = new_pinned<std::uint32_t>(64);
      auto* const count = new_device<std::uint32_t>(1);
      add_one<<<1, 1>>>(count);
      PROBE(cudaDeviceSynchronize());
      for (int waiting = 0; waiting < kMax && answer->stuck_at == 0; ++waiting) {
        const cudaStream_t stream = new_stream();
        add_one<<<1, 1, 0, stream>>>(count);
        if (!is_over(stream, 0.5)) answer->stuck_at = waiting;
        PROBE(operations.wait(stream, flag, 1));
      }
      poke(flag, 1u);
      PROBE(cudaDeviceSynchronize());
    });
    const std::string name = connections == nullptr ? "default" : connections;
    put("waiting_streams_that_hold_up_another_" + name,
        answer->stuck_at == 0 ? print("more than %d", kMax) : std::to_string(answer->stuck_at));
    if (connections == nullptr)
      check("waiting_streams", answer->stuck_at == 0 || answer->stuck_at > 4,
            answer->stuck_at == 0 ? print("not even %d", kMax)
                                  : print("%d waiting streams do", answer->stuck_at));
  }
  answer("how many streams may wait before another one stands still");
}

}  // namespace probe
