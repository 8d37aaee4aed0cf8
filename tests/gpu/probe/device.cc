// SPDX-License-Identifier: Apache-2.0
// Properties of the device and its surroundings, and how devices access each other.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "asks.h"
#include "calls.h"

namespace probe {

void ask_present() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice)
    unsupported(cudaGetErrorString(error));
  PROBE(error);
  if (count == 0) unsupported("the driver knows none");
  PROBE(cudaDriverGetVersion(&driver));
  PROBE(cudaRuntimeGetVersion(&runtime));
  cudaDeviceProp properties;
  PROBE(cudaGetDeviceProperties(&properties, 0));
  put("name", properties.name);
  put("count", count);
  put("sm", properties.major * 10 + properties.minor);
  put("driver", driver);
  put("runtime", runtime);
}

namespace {

struct Fact {
  const char* name;
  int which;  // CUdevice_attribute
  const char* unit;
};
constexpr Fact kFacts[] = {
    {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ""},
    {"clock", CU_DEVICE_ATTRIBUTE_CLOCK_RATE, "kHz"},
    {"memory_clock", CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, "kHz"},
    {"bus_width", CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, "bits"},
    {"l2", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "bytes"},
    {"l2_persisting", CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, "bytes"},
    {"threads_a_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, ""},
    {"ctas_a_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, ""},
    {"shared_a_cta", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "bytes"},
    {"shared_a_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, "bytes"},
    {"copy_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, ""},
    {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, ""},
    {"mps", CU_DEVICE_ATTRIBUTE_MPS_ENABLED, ""},
    {"compute_preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, ""},
    {"cooperative", CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, ""},
    {"clusters", CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, ""},
    {"sync_domains", CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, ""},
    {"unified_addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, ""},
    {"maps_host_memory", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, ""},
    {"registers_host_memory", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, ""},
    {"host_pointer_of_registered", CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, ""},
    {"pageable_access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, ""},
    {"pageable_by_host_tables", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
     ""},
    {"concurrent_managed", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, ""},
    {"host_native_atomics", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, ""},
    {"virtual_memory", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ""},
    {"posix_handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, ""},
    {"fabric_handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, ""},
    {"multicast", CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, ""},
    {"memory_pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, ""},
    {"pool_handle_types", CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, ""},
    {"rdma_of_virtual_memory", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, ""},
    {"rdma", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, ""},
    {"rdma_flush_options", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, ""},
    {"rdma_writes_ordering", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, ""},
    {"dma_buf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, ""},
    {"ipc_events", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, ""},
    {"stream_wait_flushes", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, ""},
    {"stream_memory_64_bits", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, ""},
    {"stream_wait_nor", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, ""},
    {"numa_config", CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, ""},
    {"host_numa_node", CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, ""},
};
int fact(const char* name) {
  for (const Fact& one : kFacts)
    if (std::strcmp(one.name, name) == 0)
      return attribute(static_cast<CUdevice_attribute>(one.which));
  give_up(std::string("no fact is called ") + name);
}

// Output of a command, at most `maximum` bytes of it; "" if it fails.
std::string output_of(const std::string& command, std::size_t maximum) {
  std::string output;
  FILE* const pipe = popen((command + " 2>/dev/null").c_str(), "r");
  char part[1024];
  while (pipe != nullptr && output.size() < maximum &&
         std::fgets(part, sizeof(part), pipe) != nullptr)
    output += part;
  if (pipe == nullptr || pclose(pipe) != 0) return "";
  return output.substr(0, maximum);
}

}  // namespace

void ask_device() {
  const double begin = now_seconds();
  PROBE(cudaSetDevice(0));
  PROBE(cudaFree(nullptr));
  put("context", (now_seconds() - begin) * 1e3, "ms");
  for (const Fact& one : kFacts)
    put(one.name, attribute(static_cast<CUdevice_attribute>(one.which)), one.unit);
  std::size_t free_bytes = 0, total = 0;
  PROBE(cudaMemGetInfo(&free_bytes, &total));
  put("memory", static_cast<double>(total), "bytes");
  put("memory_free", static_cast<double>(free_bytes), "bytes");
  char bus[32] = "";
  PROBE(cudaDeviceGetPCIBusId(bus, sizeof(bus), 0));
  put("pci", bus);
  int minimum = 0, greatest = 0;
  PROBE(cudaDeviceGetStreamPriorityRange(&minimum, &greatest));
  put("priorities", print("%d to %d", minimum, greatest));

  const auto needs = [](const char* assumption, std::initializer_list<const char*> names) {
    bool all = true;
    std::string seen;
    for (const char* name : names) {
      const int value = fact(name);
      all = all && value == 1;
      if (!seen.empty()) seen += ", ";
      seen += print("%s %d", name, value);
    }
    check(assumption, all, seen);
  };
  needs("cooperative", {"cooperative"});
  needs("host_memory", {"unified_addressing", "maps_host_memory", "registers_host_memory"});
  needs("files", {"virtual_memory", "posix_handles"});
  check("shared_device", fact("compute_mode") == 0, print("compute mode %d", fact("compute_mode")));
  check("domains", fact("sync_domains") > 1, print("%d domains", fact("sync_domains")));
  check("no_mig",
        std::getenv("CUDA_VISIBLE_DEVICES") == nullptr ||
            std::strstr(std::getenv("CUDA_VISIBLE_DEVICES"), "MIG") == nullptr,
        print("%d multiprocessors", fact("multiprocessors")));
  answer(print("%d multiprocessors, %d KiB of L2, %d copy engines", fact("multiprocessors"),
               fact("l2") / 1024, fact("copy_engines")));
}

void ask_tools() {
  put("nvml", dlopen("libnvidia-ml.so.1", RTLD_NOW) != nullptr);
  put("rdma_verbs", dlopen("libibverbs.so.1", RTLD_NOW) != nullptr);
  std::string found;
  for (const char* tool : {"nvcc", "nvidia-smi", "compute-sanitizer", "ncu", "nsys", "cuobjdump",
                           "cmake", "ninja", "python3", "gdb"})
    if (!output_of(std::string("command -v ") + tool, 256).empty())
      found.append(found.empty() ? "" : " ").append(tool);
  put("tools", found);
  put("torch", output_of("python3 -c 'from importlib.metadata import version as v; "
                         "print(v(\"torch\"))'",
                         64));
  for (const char* path :
       {"/proc/driver/nvidia/version", "/proc/driver/nvidia-fs/stats", "/dev/nvidiactl",
        "/dev/nvidia-caps", "/dev/infiniband", "/dev/gdrdrv", "/tmp/nvidia-mps/control"})
    put(path, access(path, F_OK) == 0);
  put("topology", output_of("nvidia-smi topo -m", 4000));
  put("smi", output_of("nvidia-smi --query-gpu=name,driver_version,compute_mode,mig.mode.current,"
                       "persistence_mode,clocks.sm,clocks.max.sm,clocks.mem,power.limit,"
                       "pcie.link.gen.current,pcie.link.width.current --format=csv",
                       2000));
  put("cores", static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)));
  answer("found: " + found);
}

namespace {

// Whether a word that one device copies into another one's memory is there for its owner, and
// whether it reads it back. -1: the copy does not end. An IOMMU can drop such writes.
int arrives(int from, int to) {
  constexpr std::uint32_t kWord = 0x5a0f1e2d;
  PROBE(cudaSetDevice(to));
  auto* const theirs = new_device<std::uint32_t>(1);
  PROBE(cudaSetDevice(from));
  if (const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
      error != cudaErrorPeerAccessAlreadyEnabled)
    PROBE(error);
  (void)cudaGetLastError();
  auto* const own = new_device<std::uint32_t>(2);
  PROBE(cudaMemcpy(own, &kWord, sizeof kWord, cudaMemcpyHostToDevice));
  const cudaStream_t stream = new_stream();
  PROBE(cudaMemcpyAsync(theirs, own, sizeof kWord, cudaMemcpyDeviceToDevice, stream));
  PROBE(cudaMemcpyAsync(own + 1, theirs, sizeof kWord, cudaMemcpyDeviceToDevice, stream));
  if (!is_over(stream, 1)) return -1;
  std::uint32_t read = 0, arrived = 0;
  PROBE(cudaMemcpy(&read, own + 1, sizeof read, cudaMemcpyDeviceToHost));
  PROBE(cudaSetDevice(to));
  PROBE(cudaMemcpy(&arrived, theirs, sizeof arrived, cudaMemcpyDeviceToHost));
  return read == kWord && arrived == kWord;
}

}  // namespace

void ask_peers() {
  const int count = device_count();
  put("devices", count);
  const struct {
    const char* name;
    cudaDeviceP2PAttr which;
  } attributes[] = {{"rank", cudaDevP2PAttrPerformanceRank},
                    {"access", cudaDevP2PAttrAccessSupported},
                    {"atomics", cudaDevP2PAttrNativeAtomicSupported}};
  int reached = 0, arrived = 0;
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      std::string text;
      for (const auto& one : attributes) {
        int value = -1;
        PROBE(cudaDeviceGetP2PAttribute(&value, one.which, from, to));
        text += print("%s %d ", one.name, value);
      }
      int can = 0;
      PROBE(cudaDeviceCanAccessPeer(&can, from, to));
      reached += can;
      const int comes = can != 0 ? arrives(from, to) : 0;
      arrived += comes == 1;
      put(print("%d_to_%d", from, to), text + print("can_access %d arrives %d", can, comes));
    }
  }
  if (count == 1) return answer("one device: no pairs");
  check("all_reach", reached == count * (count - 1),
        print("%d of %d ordered pairs", reached, count * (count - 1)));
  check("p2p_arrives", arrived == reached,
        print("a copied word arrived for %d of %d ordered pairs", arrived, reached));
  answer(print("%d of %d ordered pairs of devices reach each other", reached, count * (count - 1)));
}

}  // namespace probe
