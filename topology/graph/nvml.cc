// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/shared_library.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

// The part of NVML's C interface that is used here.
constexpr int kOk = 0;
constexpr unsigned kMaxLinks = 36;
constexpr unsigned kMaxInstances = 64;  // per GPU; today's have at most 7
constexpr unsigned kC2cCount = 170, kC2cStatus = 171, kC2cMegabytes = 172;
constexpr int kRemoteGpu = 0, kRemoteCpu = 1, kRemoteSwitch = 2;

struct NvmlPci {
  char old_bus_id[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};
static_assert(sizeof(NvmlPci) == 68 && offsetof(NvmlPci, bus_id) == 36);

struct NvmlField {
  unsigned field = 0;
  unsigned scope = 0;
  long long time = 0, latency = 0;
  int type = 0;  // 0: double; 1: unsigned; 2, 3: 64 bits; 4: 64 bits, signed; 5: int; 6: 16 bits
  int result = 0;
  union {
    double real;
    unsigned number;
    unsigned long long wide;
    unsigned short narrow;
  } value = {};
};
static_assert(sizeof(NvmlField) == 40 && offsetof(NvmlField, value) == 32);

struct NvmlFabric {  // version 2
  unsigned version = 2u << 24 | 36;
  unsigned char cluster[16] = {};
  int status = 0;
  unsigned clique = 0;
  unsigned char state = 0;
  unsigned health = 0;
};
static_assert(sizeof(NvmlFabric) == 36 && offsetof(NvmlFabric, clique) == 24);
constexpr unsigned char kFabricComplete = 3;

using NvmlDevice = struct NvmlDeviceTag*;

struct NvmlTable {
  int (*init)();
  int (*shutdown)();
  const char* (*error_string)(int result);
  int (*count)(unsigned* count);
  int (*handle)(unsigned index, NvmlDevice* device);
  int (*pci)(NvmlDevice device, NvmlPci* pci);
  int (*compute)(NvmlDevice device, int* major, int* minor);
  // May be absent:
  int (*link_state)(NvmlDevice device, unsigned link, int* up);
  int (*link_pci)(NvmlDevice device, unsigned link, NvmlPci* pci);
  int (*link_kind)(NvmlDevice device, unsigned link, int* kind);
  int (*fields)(NvmlDevice device, int count, NvmlField* fields);
  int (*mig_mode)(NvmlDevice device, unsigned* current, unsigned* pending);
  int (*mig_max)(NvmlDevice device, unsigned* count);
  int (*mig_handle)(NvmlDevice device, unsigned index, NvmlDevice* instance);
  int (*fabric)(NvmlDevice device, NvmlFabric* info);
};

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using NvmlLibrary = std::unique_ptr<void, CloseLibrary>;

template <class Function>
void look_up(const NvmlLibrary& library, Function*& use, const char* name) {
  use = reinterpret_cast<Function*>(dlsym(library.get(), name));
}

Result<NvmlTable> table_of(const NvmlLibrary& library, const char* name) {
  NvmlTable nvml{};
  look_up(library, nvml.init, "nvmlInit_v2");
  look_up(library, nvml.shutdown, "nvmlShutdown");
  look_up(library, nvml.error_string, "nvmlErrorString");
  look_up(library, nvml.count, "nvmlDeviceGetCount_v2");
  look_up(library, nvml.handle, "nvmlDeviceGetHandleByIndex_v2");
  look_up(library, nvml.pci, "nvmlDeviceGetPciInfo_v3");
  look_up(library, nvml.compute, "nvmlDeviceGetCudaComputeCapability");
  look_up(library, nvml.link_state, "nvmlDeviceGetNvLinkState");
  look_up(library, nvml.link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  look_up(library, nvml.link_kind, "nvmlDeviceGetNvLinkRemoteDeviceType");
  look_up(library, nvml.fields, "nvmlDeviceGetFieldValues");
  look_up(library, nvml.mig_mode, "nvmlDeviceGetMigMode");
  look_up(library, nvml.mig_max, "nvmlDeviceGetMaxMigDeviceCount");
  look_up(library, nvml.mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex");
  look_up(library, nvml.fabric, "nvmlDeviceGetGpuFabricInfoV");
  const bool complete = nvml.init != nullptr && nvml.shutdown != nullptr &&
                        nvml.error_string != nullptr && nvml.count != nullptr &&
                        nvml.handle != nullptr && nvml.pci != nullptr && nvml.compute != nullptr;
  if (complete) return nvml;
  return fail(StatusCode::kSystemError, "{} lacks functions of NVML: the driver is too old", name);
}

std::uint64_t number_in(const NvmlField& field) {
  switch (field.type) {
    case 0:
      return field.value.real > 0 ? static_cast<std::uint64_t>(field.value.real) : 0;
    case 1:
    case 5:
      return field.value.number;
    case 6:
      return field.value.narrow;
    default:
      return field.value.wide;
  }
}

class NvmlReader {
 public:
  explicit NvmlReader(const NvmlTable& nvml) : nvml_(nvml) {}

  Result<std::vector<NvmlGpu>> read() {
    unsigned count = 0;
    if (const int result = nvml_.count(&count); result != kOk) return failed(result);
    std::vector<NvmlGpu> gpus;
    for (unsigned index = 0; index < count; ++index) {
      NvmlDevice device = nullptr;
      NvmlPci pci{};
      // Skip a GPU that belongs to another user or is lost.
      if (nvml_.handle(index, &device) != kOk || nvml_.pci(device, &pci) != kOk) continue;
      NvmlGpu gpu{.bus_id = bus_id_of(pci), .number = static_cast<int>(index)};
      if (gpu.bus_id.empty()) continue;
      int major = 0, minor = 0;
      if (nvml_.compute(device, &major, &minor) == kOk) gpu.compute = major * 10 + minor;
      read_links(device, gpu);
      gpu.c2c_gbs = c2c_gbs(device);
      gpu.instances = instances_of(device);
      gpu.fabric = fabric_of(device);
      gpus.push_back(std::move(gpu));
    }
    return gpus;
  }

  Error failed(int result) const {
    return fail(StatusCode::kSystemError, "NVML: {}", nvml_.error_string(result));
  }

 private:
  static std::string bus_id_of(const NvmlPci& pci) {
    return normal_bus_id(fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device));
  }

  void read_links(NvmlDevice device, NvmlGpu& gpu) const {
    if (nvml_.link_state == nullptr) return;
    for (unsigned link = 0; link < kMaxLinks; ++link) {
      int up = 0;
      if (nvml_.link_state(device, link, &up) != kOk) return;  // no such link
      if (up == 0) {
        ++gpu.nvlinks_down;
      } else {
        gpu.nvlinks.push_back(peer_of(device, link));
      }
    }
  }

  NvmlGpu::Peer peer_of(NvmlDevice device, unsigned link) const {
    int kind = -1;
    if (nvml_.link_kind == nullptr || nvml_.link_kind(device, link, &kind) != kOk) kind = -1;
    if (kind == kRemoteSwitch) return {};
    if (kind == kRemoteCpu) return {NodeKind::kNuma};
    NvmlPci pci{};
    const bool known = nvml_.link_pci != nullptr && nvml_.link_pci(device, link, &pci) == kOk;
    // Virtual machines hide NVSwitches: then NVML reports no other end, so assume an NVSwitch.
    if (!known && kind != kRemoteGpu) return {};
    return {NodeKind::kGpu, bus_id_of(pci)};
  }

  // The indices of instances have gaps, so every possible index is tried.
  int instances_of(NvmlDevice device) const {
    unsigned now = 0, pending = 0, maximum = 0;
    const bool cut = nvml_.mig_mode != nullptr && nvml_.mig_mode(device, &now, &pending) == kOk;
    if (!cut || now == 0) return -1;
    if (nvml_.mig_max == nullptr || nvml_.mig_handle == nullptr ||
        nvml_.mig_max(device, &maximum) != kOk)
      return 0;
    int instances = 0;
    for (unsigned index = 0; index < std::min(maximum, kMaxInstances); ++index) {
      NvmlDevice instance = nullptr;
      if (nvml_.mig_handle(device, index, &instance) == kOk) ++instances;
    }
    return instances;
  }

  FabricPlace fabric_of(NvmlDevice device) const {
    NvmlFabric info;
    const bool known = nvml_.fabric != nullptr && nvml_.fabric(device, &info) == kOk &&
                       info.state == kFabricComplete && info.status == kOk;
    if (!known) return {};
    return {std::to_array(info.cluster), info.clique};
  }

  double c2c_gbs(NvmlDevice device) const {
    NvmlField count{.field = kC2cCount};
    if (nvml_.fields == nullptr || nvml_.fields(device, 1, &count) != kOk || count.result != kOk) {
      return 0;
    }
    double gbs = 0;
    for (unsigned link = 0; link < std::min<std::uint64_t>(number_in(count), kMaxLinks); ++link) {
      NvmlField fields[] = {{.field = kC2cStatus, .scope = link},
                            {.field = kC2cMegabytes, .scope = link}};
      if (nvml_.fields(device, 2, fields) != kOk) continue;
      const bool up = fields[0].result == kOk && number_in(fields[0]) == 1;
      if (up && fields[1].result == kOk) gbs += static_cast<double>(number_in(fields[1])) / 1000;
    }
    return gbs;
  }

  const NvmlTable& nvml_;
};

}  // namespace

Result<std::vector<NvmlGpu>> ask_nvml(const char* name) {
  const auto loaded = load_library(name);
  if (!loaded.ok()) {
    return fail(StatusCode::kSystemError, "{} cannot be loaded: {}; it comes with NVIDIA's driver",
                name, loaded.error().text);
  }
  const NvmlLibrary library(*loaded);
  RONDO_TRY(const NvmlTable nvml, table_of(library, name));
  NvmlReader reader(nvml);
  if (const int result = nvml.init(); result != kOk) return reader.failed(result);
  auto gpus = reader.read();
  nvml.shutdown();
  return gpus;
}

Result<Graph> with_nvml(const Graph& graph, const std::vector<NvmlGpu>& gpus) {
  GraphBuilder builder(graph);
  std::vector<int> nodes;
  for (const NvmlGpu& gpu : gpus) {
    int node = builder.find(gpu.bus_id);
    if (node < 0) {
      node = builder.add({.kind = NodeKind::kGpu, .bus_id = gpu.bus_id});
      builder.link({node, graph.numa_nodes().front(), GraphLinkKind::kPci, 0, 0, Source::kNvml});
    }
    builder.node(node).number = gpu.number;
    builder.node(node).compute = gpu.compute;
    builder.node(node).instances = gpu.instances;
    builder.node(node).source = Source::kNvml;
    nodes.push_back(node);
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const double each = nvlink_gbs(gpus[i].compute);
    const int numa = builder.numa_of(nodes[i]);
    for (const NvmlGpu::Peer& peer : gpus[i].nvlinks) {
      if (peer.kind == NodeKind::kNuma) {
        builder.link({nodes[i], numa, GraphLinkKind::kC2c, each, 1, Source::kNvml});
        continue;
      }
      if (gpus[i].instances >= 0) continue;
      const bool to_gpu = peer.kind == NodeKind::kGpu;
      const int to = to_gpu ? builder.find(peer.bus_id) : builder.nvswitch();
      if (to < 0 || to == nodes[i] || builder.node(to).instances >= 0) continue;
      builder.link({nodes[i], to, GraphLinkKind::kNvLink, each, 1, Source::kNvml});
    }
    if (gpus[i].c2c_gbs > 0) {
      builder.link({nodes[i], numa, GraphLinkKind::kC2c, gpus[i].c2c_gbs, 1, Source::kNvml});
    }
  }
  return std::move(builder).build();
}

}  // namespace rondo::topology
