// SPDX-License-Identifier: Apache-2.0
#include "topology/host_topology.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "topology/cpu_budget.h"
#include "topology/small_file.h"

namespace rondo::topology {
namespace {

// Facts of the running kernel, which an import does not change.
void read_kernel_facts(HostTopology& host) {
  host.host_id = host_id();
  struct utsname names {};
  if (::uname(&names) == 0) {
    host.host_name = names.nodename;
    host.kernel_version = names.release;
  }
  host.cpu_features = detect_cpu_features();
  host.page_bytes = static_cast<std::uint32_t>(std::max(1L, ::sysconf(_SC_PAGESIZE)));
  const long line = ::sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  if (line > 0) host.cache_line_bytes = static_cast<std::uint32_t>(line);
}

}  // namespace

void complete(HostTopology& host) {
  host.cores_total = static_cast<int>(host.cpus.size());
  std::sort(host.numa_nodes.begin(), host.numa_nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  std::uint64_t node_memory = 0;
  for (const NumaNode& node : host.numa_nodes) node_memory += node.memory_bytes;
  if (host.memory_bytes == 0) host.memory_bytes = node_memory;
  if (host.numa_nodes.empty()) host.numa_nodes.push_back({0, host.memory_bytes, host.cpus});
  if (host.packages.empty()) host.packages.push_back(host.cpus);
  if (host.physical_cores.empty()) {
    for (const int cpu : host.cpus) host.physical_cores.push_back({cpu});
  }
  if (!host.l2_caches.empty()) host.l2_bytes = host.l2_caches.front().bytes;
  if (!host.l3_caches.empty()) host.l3_bytes = host.l3_caches.front().bytes;
}

DiscoverOptions discover_options_from_environment() {
  DiscoverOptions options;
  options.xml_path = env::get_string("RONDO_TOPO_XML");
  options.synthetic = env::get_string("RONDO_TOPO_SYNTHETIC");
  return options;
}

Result<HostTopology> discover(const DiscoverOptions& options) {
  HostTopology host;
  read_kernel_facts(host);
  const bool imported = !options.xml_path.empty() || !options.synthetic.empty();
  const HostTopology empty = host;
  const Status by_hwloc = options.allow_hwloc || imported
                              ? read_by_hwloc(options, host)
                              : Status(fail(StatusCode::kSystemError, "hwloc is not wanted"));
  if (!by_hwloc.ok() && imported) return by_hwloc.error();
  if (by_hwloc.ok()) {
    host.source = !options.xml_path.empty()    ? "xml " + options.xml_path
                  : !options.synthetic.empty() ? "synthetic " + options.synthetic
                                               : "hwloc";
  } else {
    if (options.allow_hwloc) {
      RONDO_INFO(kGraph, "{}; reading /sys instead", by_hwloc.error().text);
    }
    host = empty;
    read_by_sysfs(options.sysfs_root, host);
    host.source = "sysfs";
  }
  complete(host);
  host.cores_usable = imported ? host.cores_total : std::min(usable_cores(), host.cores_total);
  return host;
}

namespace {

constexpr CpuFeature kFeatures[] = {
    {1u << 0, "sse4.2"},   {1u << 1, "avx"},        {1u << 2, "avx2"},        {1u << 3, "fma"},
    {1u << 4, "f16c"},     {1u << 5, "avx512f"},    {1u << 6, "avx512bw"},    {1u << 7, "avx512vl"},
    {1u << 8, "avx512dq"}, {1u << 9, "avx512bf16"}, {1u << 10, "avx512vbmi"}, {1u << 16, "neon"},
    {1u << 17, "sve"},
};

}  // namespace

std::span<const CpuFeature> known_cpu_features() { return kFeatures; }

std::uint32_t detect_cpu_features() {
  std::uint32_t mask = 0;
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  // The builtin accepts only literals.
  if (__builtin_cpu_supports("sse4.2")) mask |= 1u << 0;
  if (__builtin_cpu_supports("avx")) mask |= 1u << 1;
  if (__builtin_cpu_supports("avx2")) mask |= 1u << 2;
  if (__builtin_cpu_supports("fma")) mask |= 1u << 3;
#if defined(__GNUC__) && !defined(__clang__)
  if (__builtin_cpu_supports("f16c")) mask |= 1u << 4;
#else
  if (__builtin_cpu_supports("avx2")) mask |= 1u << 4;  // every CPU with AVX2 has F16C
#endif
  if (__builtin_cpu_supports("avx512f")) mask |= 1u << 5;
  if (__builtin_cpu_supports("avx512bw")) mask |= 1u << 6;
  if (__builtin_cpu_supports("avx512vl")) mask |= 1u << 7;
  if (__builtin_cpu_supports("avx512dq")) mask |= 1u << 8;
  if (__builtin_cpu_supports("avx512bf16")) mask |= 1u << 9;
  if (__builtin_cpu_supports("avx512vbmi")) mask |= 1u << 10;
#elif defined(__aarch64__)
  const unsigned long hwcap = ::getauxval(AT_HWCAP);
  if (hwcap & (1ul << 1)) mask |= 1u << 16;   // ASIMD
  if (hwcap & (1ul << 22)) mask |= 1u << 17;  // SVE
#endif
  return mask;
}

std::string feature_names(std::uint32_t mask) {
  std::string names;
  for (const CpuFeature& feature : kFeatures) {
    if ((mask & feature.bit) == 0) continue;
    if (!names.empty()) names += ' ';
    names += feature.name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace rondo::topology

namespace rondo::topology {
namespace {

CacheSizes read_caches_of(int cpu, const std::string& root) {
  constexpr int kMaxCaches = 8;
  const std::string folder =
      root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
  CacheSizes sizes;
  for (int index = 0; index < kMaxCaches; ++index) {
    const std::string cache = folder + std::to_string(index);
    const auto level = read_number(cache + "/level");
    if (!level) break;
    std::string size = read_small_file(cache + "/size", 64).value_or("");
    while (!size.empty() && size.back() == '\n') size.pop_back();
    const auto bytes = static_cast<std::uint64_t>(env::parse_bytes(size).value_or(0));
    if (*level == 2) sizes.core_bytes = bytes;
    if (*level == 3) sizes.shared_bytes = bytes;
  }
  return sizes;
}

}  // namespace

CacheSizes cache_sizes(const std::string& root) {
  // Cached for the first CPU only: almost always all communicators ask about the same CPU.
  struct Known {
    int cpu;
    CacheSizes sizes;
  };
  static std::atomic<const Known*> known{nullptr};
  const CpuList cpus = affinity_cpus();
  const int cpu = cpus.empty() ? 0 : cpus.front();
  if (!root.empty()) return read_caches_of(cpu, root);
  const Known* last = known.load(std::memory_order_acquire);
  if (last != nullptr && last->cpu == cpu) return last->sizes;
  const CacheSizes sizes = read_caches_of(cpu, root);
  if (last == nullptr) {
    auto made = std::make_unique<const Known>(Known{cpu, sizes});
    if (known.compare_exchange_strong(last, made.get())) (void)made.release();
  }
  return sizes;
}

namespace {

// FNV-1a over the bytes and a separator, so that "ab","c" and "a","bc" differ.
std::uint64_t mix(std::uint64_t hash, std::string_view text) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return (hash ^ 0xff) * kPrime;
}

std::string first_line(const std::string& path) {
  std::string text = read_small_file(path, 256).value_or("");
  text.resize(std::min(text.size(), text.find('\n')));
  return text;
}

}  // namespace

HostFacts read_host_facts() {
  HostFacts facts;
  facts.override_id = env::get_string("NCCL_HOSTID");
  static const auto& boot_id = *new std::string([] {
    const std::string of_boot = first_line("/proc/sys/kernel/random/boot_id");
    return of_boot.empty() ? first_line("/etc/machine-id") : of_boot;
  }());
  facts.boot_id = boot_id;
  struct utsname names {};
  if (::uname(&names) == 0) facts.node_name = names.nodename;
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) == 0) facts.network_namespace = network.st_ino;
  return facts;
}

std::uint64_t host_id_of(const HostFacts& facts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  if (!facts.override_id.empty()) {
    hash = mix(hash, facts.override_id);
  } else {
    hash = mix(hash, facts.boot_id);
    hash = mix(hash, facts.node_name);
    hash = mix(hash, std::to_string(facts.network_namespace));
  }
  return hash == 0 ? 1 : hash;
}

std::uint64_t host_id() { return host_id_of(read_host_facts()); }

}  // namespace rondo::topology
