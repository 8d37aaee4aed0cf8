// What the device is, what starting costs, and which tools are beside it.
#include <dlfcn.h>
#include <unistd.h>

#include "probe.h"

namespace probe {

void ask_device(Answer& answer) {
  int count = 0, driver = 0;
  PROBE(cudaGetDeviceCount(&count));
  PROBE(cudaDriverGetVersion(&driver));
  cudaDeviceProp properties;
  PROBE(cudaGetDeviceProperties(&properties, 0));
  answer.put("devices", count);
  answer.put("driver", driver);
  answer.put("name", std::string(properties.name));
  answer.put("sm", properties.major * 10 + properties.minor);
  answer.put("multiprocessors", properties.multiProcessorCount);
  answer.put("l2_bytes", properties.l2CacheSize);
  answer.put("memory_bytes", static_cast<double>(properties.totalGlobalMem));
  const struct {
    const char* name;
    CUdevice_attribute which;
  } attributes[] = {
      {"unified_addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
      {"pageable_memory", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
      {"host_pointer_for_registered", CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
      {"stream_wait_flush", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES},
      {"virtual_memory", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
      {"posix_handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
      {"fabric_handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
      {"multicast", CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED},
      {"dmabuf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED},
      {"ipc_events", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
      {"compute_preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
      {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
      {"numa_node", CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
  };
  const auto get = PROBE_ENTRY(cuDeviceGetAttribute);
  for (const auto& attribute : attributes) {
    int value = -1;
    get(&value, attribute.which, 0);
    answer.put(attribute.name, value);
  }
}

template <int seed>
__global__ void small_kernel(int* at) {
  at[threadIdx.x] = at[threadIdx.x] * seed + 1;
}
template <int... seeds>
double load_all(std::integer_sequence<int, seeds...>) {
  const void* kernels[] = {reinterpret_cast<const void*>(&small_kernel<seeds>)...};
  const double begin = now_seconds();
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes;
    PROBE(cudaFuncGetAttributes(&attributes, kernel));
  }
  return (now_seconds() - begin) * 1e3;
}

void ask_context(Answer& answer) {
  const double begin = now_seconds();
  PROBE(cudaSetDevice(0));
  PROBE(cudaFree(nullptr));
  answer.put("context_ms", (now_seconds() - begin) * 1e3);
  answer.put("load_64_kernels_ms", load_all(std::make_integer_sequence<int, 64>()));
  cudaEvent_t event;
  cudaStream_t stream;
  PROBE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  PROBE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int* at = nullptr;
  PROBE(cudaMalloc(&at, 4096));
  constexpr int kLaunches = 2000;
  const double launches = now_seconds();
  for (int i = 0; i < kLaunches; ++i) small_kernel<1><<<1, 32, 0, stream>>>(at);
  PROBE(cudaStreamSynchronize(stream));
  answer.put("launch_us", (now_seconds() - launches) / kLaunches * 1e6);
  const double records = now_seconds();
  for (int i = 0; i < kLaunches; ++i) {
    PROBE(cudaEventRecord(event, stream));
    PROBE(cudaStreamWaitEvent(stream, event, 0));
  }
  PROBE(cudaStreamSynchronize(stream));
  answer.put("record_and_wait_us", (now_seconds() - records) / kLaunches * 1e6);
}

void ask_tools(Answer& answer) {
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  answer.put("nvml", nvml != nullptr);
  const char* tools[] = {"nvcc", "compute-sanitizer", "cuobjdump", "cmake", "python3", "nsys"};
  for (const char* tool : tools) {
    const std::string command = std::string("command -v ") + tool + " >/dev/null 2>&1";
    answer.put(tool, std::system(command.c_str()) == 0);
  }
  answer.put("torch", std::system("python3 -c 'import torch' >/dev/null 2>&1") == 0);
  answer.put("mps", access("/tmp/nvidia-mps/control", F_OK) == 0);
}

}  // namespace probe
