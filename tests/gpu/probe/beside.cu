// SPDX-License-Identifier: Apache-2.0
// What can run beside a kernel that waits: first launches of other kernels, runtime calls, streams
// that share its hardware queue, more kernels that wait.
#include <cstdlib>
#include <cstring>
#include <functional>

#include "asks.h"
#include "bounded.h"
#include "processes.h"

namespace probe {
namespace {

// A kernel that occupies the device until it is released or times out.
class Held {
 public:
  Held() {
    hold<<<1, 1, 0, stream_>>>(words_, words_ + 64, 0);  // loaded
    PROBE(cudaStreamSynchronize(stream_));
  }
  void begin(std::uint64_t ns) {
    poke(words_, 0u);
    poke(words_ + 64, 0u);
    hold<<<1, 1, 0, stream_>>>(words_, words_ + 64, ns);
    if (!comes(words_, 1, 1)) give_up("a kernel did not begin within 1 s");
  }
  bool goes_on() const { return cudaStreamQuery(stream_) == cudaErrorNotReady; }
  void release() {
    poke(words_ + 64, 1u);
    PROBE(cudaStreamSynchronize(stream_));
  }

 private:
  cudaStream_t stream_ = new_stream();
  std::uint32_t* words_ = new_pinned<std::uint32_t>(128);
};

template <int>
__global__ void fresh(std::uint32_t* at) {
  gpu::store(at, 1u);
}

struct Loading {
  double launch_us, attributes_us, loaded_us;
  bool launch_beside, attributes_beside, loaded_beside;
};

void measure_loading(Loading& loading) {
  Held held;
  const cudaStream_t other = new_stream();
  auto* const at = new_device<std::uint32_t>(1);
  constexpr std::uint64_t kHeld = 300 * kMillisecond;
  const auto first_launch = [&](void (*kernel)(std::uint32_t*), double& us) {
    held.begin(kHeld);
    const double begin = now_seconds();
    kernel<<<1, 1, 0, other>>>(at);
    us = since_us(begin);
    const bool beside = is_over(other, 0.1) && held.goes_on();
    held.release();
    PROBE(cudaDeviceSynchronize());
    return beside;
  };
  cudaFuncAttributes attributes{};
  PROBE(cudaFuncGetAttributes(&attributes, fresh<0>));
  loading.loaded_beside = first_launch(fresh<0>, loading.loaded_us);
  loading.launch_beside = first_launch(fresh<1>, loading.launch_us);
  held.begin(kHeld);
  const double begin = now_seconds();
  PROBE(cudaFuncGetAttributes(&attributes, fresh<2>));
  loading.attributes_us = since_us(begin);
  loading.attributes_beside = held.goes_on();
  held.release();
}

}  // namespace

void ask_loading() {
  for (const char* how : {"LAZY", "EAGER"}) {
    auto* const loading = static_cast<Loading*>(share_memory(sizeof(Loading)));
    in_processes(1, [&](int) {
      setenv("CUDA_MODULE_LOADING", how, 1);
      measure_loading(*loading);
    });
    const std::string name = how;
    put(name + "_first_launch", loading->launch_us, "us");
    put(name + "_first_launch_runs_beside", loading->launch_beside);
    put(name + "_attributes", loading->attributes_us, "us");
    put(name + "_attributes_return_beside", loading->attributes_beside);
    put(name + "_launch_of_a_loaded_kernel", loading->loaded_us, "us");
    put(name + "_loaded_kernel_runs_beside", loading->loaded_beside);
    if (name != "LAZY") continue;
    check("loaded_runs_beside", loading->loaded_beside,
          print("launched in %.0f us", loading->loaded_us));
    check("first_launch_waits_for_none", loading->launch_beside,
          print("its launch took %.0f us", loading->launch_us));
  }
  answer("whether the first launch of a kernel waits for one that runs");
}

// Each call, while a kernel runs that ends by itself after 80 ms.
void ask_calls_beside() {
  Held held;
  nothing<<<1, 32>>>();
  PROBE(cudaDeviceSynchronize());
  constexpr std::uint64_t kHeld = 80 * kMillisecond;
  void *device = nullptr, *pinned = nullptr, *in_order = nullptr, *from_pool = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  const cudaStream_t other = new_stream();
  constexpr std::size_t kBytes = 4 << 20;
  void* const file = share_memory(kBytes);
  void* const source = new_device<char>(kBytes);
  void* const target = new_device<char>(kBytes);
  cudaIpcMemHandle_t handle{};
  cudaGraphExec_t graph = nullptr;
  const auto ask = [&](const char* name, const std::function<cudaError_t()>& call) {
    held.begin(kHeld);
    const double begin = now_seconds();
    const cudaError_t error = call();
    const double us = since_us(begin);
    const bool beside = held.goes_on();
    held.release();
    if (error != cudaSuccess) cudaGetLastError();
    put(name, error != cudaSuccess ? name_of(error)
                                   : print("%.0f us, %s", us, beside ? "beside" : "WAITS"));
    return beside;
  };
  const bool allocates = ask("cudaMalloc", [&] { return cudaMalloc(&device, kBytes); });
  ask("cudaIpcGetMemHandle", [&] { return cudaIpcGetMemHandle(&handle, device); });
  ask("cudaMemsetAsync", [&] { return cudaMemsetAsync(device, 0, kBytes, other); });
  ask("cudaMemcpyAsync",
      [&] { return cudaMemcpyAsync(target, source, kBytes, cudaMemcpyDeviceToDevice, other); });
  ask("cudaFree", [&] { return cudaFree(device); });
  const bool pins = ask("cudaHostAlloc", [&] { return cudaHostAlloc(&pinned, kBytes, 3); });
  ask("cudaFreeHost", [&] { return cudaFreeHost(pinned); });
  const bool registers = ask("cudaHostRegister", [&] { return cudaHostRegister(file, kBytes, 3); });
  ask("cudaHostUnregister", [&] { return cudaHostUnregister(file); });
  const bool streams = ask("cudaStreamCreate", [&] {
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  });
  const bool events = ask("cudaEventCreate",
                          [&] { return cudaEventCreateWithFlags(&event, cudaEventDisableTiming); });
  ask("cudaEventDestroy", [&] { return cudaEventDestroy(event); });
  ask("cudaStreamDestroy", [&] { return cudaStreamDestroy(stream); });
  ask("cudaMallocAsync", [&] { return cudaMallocAsync(&in_order, kBytes, other); });
  ask("cudaFreeAsync", [&] { return cudaFreeAsync(in_order, other); });
  ask("cudaMallocAsync_again", [&] { return cudaMallocAsync(&from_pool, kBytes, other); });
  ask("cudaGraphInstantiate", [&] {
    graph = captured(other, [&] { nothing<<<1, 32, 0, other>>>(); });
    return cudaSuccess;
  });
  ask("cudaGraphLaunch", [&] { return cudaGraphLaunch(graph, other); });
  ask("cudaGraphExecDestroy", [&] { return cudaGraphExecDestroy(graph); });

  const auto create = PROBE_ENTRY(cuMemCreate);
  const auto reserve = PROBE_ENTRY(cuMemAddressReserve);
  const auto map = PROBE_ENTRY(cuMemMap);
  const auto allow = PROBE_ENTRY(cuMemSetAccess);
  const auto unmap = PROBE_ENTRY(cuMemUnmap);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle allocation = 0;
  CUdeviceptr at = 0;
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const auto as_error = [](CUresult result) {
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorUnknown;
  };
  ask("cuMemCreate", [&] { return as_error(create(&allocation, kBytes, &properties, 0)); });
  ask("cuMemAddressReserve", [&] { return as_error(reserve(&at, kBytes, 0, 0, 0)); });
  ask("cuMemMap", [&] { return as_error(map(at, kBytes, 0, allocation, 0)); });
  const bool allows =
      ask("cuMemSetAccess", [&] { return as_error(allow(at, kBytes, &access, 1)); });
  ask("cuMemUnmap", [&] { return as_error(unmap(at, kBytes)); });
  const bool all = allocates && pins && registers && streams && events && allows;
  check("setup_goes_on", all,
        print("cudaMalloc %d, cudaHostAlloc %d, cudaHostRegister %d, cudaStreamCreate %d, "
              "cudaEventCreate %d, cuMemSetAccess %d (1: returns while it runs)",
              allocates, pins, registers, streams, events, allows));
  answer("which calls return while a kernel runs, and which wait for its end");
}

namespace {

constexpr unsigned kStreams = 40;
struct Queues {
  unsigned held_up, at_once;
};

void measure_queues(Queues& queues) {
  cudaStream_t streams[kStreams];
  for (cudaStream_t& stream : streams) stream = new_stream();
  auto* const words = new_pinned<std::uint32_t>(128);
  nothing<<<1, 32>>>();
  hold<<<1, 1>>>(words, words + 64, 0);
  PROBE(cudaDeviceSynchronize());
  // One kernel waits; small ones run on every other stream.
  poke(words, 0u);
  hold<<<1, 1, 0, streams[0]>>>(words, words + 64, 2000 * kMillisecond);
  if (!comes(words, 1, 1)) give_up("a kernel did not begin within 1 s");
  for (unsigned i = 1; i < kStreams; ++i) {
    nothing<<<1, 32, 0, streams[i]>>>();
    queues.held_up += !is_over(streams[i], 0.01);
  }
  poke(words + 64, 1u);
  PROBE(cudaDeviceSynchronize());
  // A kernel that waits on each stream.
  poke(words, 0u);
  poke(words + 64, 0u);
  for (unsigned i = 0; i < kStreams; ++i) {
    hold<<<1, 1, 0, streams[i]>>>(words, words + 64, 1500 * kMillisecond);
    if (!comes(words, i + 1, 0.02)) break;
  }
  queues.at_once = peek(words);
  poke(words + 64, 1u);
  PROBE(cudaDeviceSynchronize());
}

}  // namespace

void ask_queues() {
  for (const char* connections : {"default", "1", "32"}) {
    auto* const queues = static_cast<Queues*>(share_memory(sizeof(Queues)));
    in_processes(1, [&](int) {
      unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
      if (std::strcmp(connections, "default") != 0)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
      measure_queues(*queues);
    });
    const std::string name = connections;
    put("held_up_by_one_kernel_" + name, queues->held_up, print("of %u", kStreams - 1).c_str());
    put("waiting_kernels_at_once_" + name, queues->at_once, print("of %u", kStreams).c_str());
    if (name == "default")
      check("kernels_at_once", queues->at_once >= 8,
            print("%u on streams of their own; one holds up %u of %u streams", queues->at_once,
                  queues->held_up, kStreams - 1));
  }
  answer("streams that stand still behind a kernel on another stream");
}

}  // namespace probe
