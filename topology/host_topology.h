// SPDX-License-Identifier: Apache-2.0
// HostTopology: the cores, caches and memory of this host. Plain data, for users (`rondo topo`).
// Devices are in the Graph (topology/graph/graph.h).
//
// "Core" means what the kernel calls a CPU (a hardware thread), because a rank occupies one.
// Cost: discover() loads hwloc without I/O devices and without its x86 backend, some milliseconds.
// If only the number of usable cores is needed, call usable_cores() (topology/cpu_budget.h), which
// reads a few files.
//
//   RONDO_TRY(const HostTopology host, discover());
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/cpu_budget.h"

namespace rondo::topology {

struct NumaNode {
  int id = 0;  // the kernel's number
  std::uint64_t memory_bytes = 0;
  CpuList cpus;  // empty: memory without cores
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct Cache {
  std::uint64_t bytes = 0;
  CpuList cpus;  // CPUs that share it
  friend bool operator==(const Cache&, const Cache&) = default;
};

struct HostTopology {
  std::uint64_t host_id = 0;  // host_id()
  std::string host_name;
  std::string kernel_version;
  std::string cpu_vendor;
  std::string cpu_model;
  std::uint32_t cpu_features = 0;  // detect_cpu_features()
  int cores_usable = 1;            // by this process: min(affinity, cgroup quota)
  int cores_total = 1;
  std::uint64_t memory_bytes = 0;
  std::uint32_t page_bytes = 4096;
  std::uint32_t cache_line_bytes = 64;
  std::uint64_t l1d_bytes = 0;  // of one cache; 0: unknown
  std::uint64_t l2_bytes = 0;
  std::uint64_t l3_bytes = 0;
  CpuList cpus;                         // all online CPUs
  std::vector<NumaNode> numa_nodes;     // by id; at least one
  std::vector<CpuList> packages;        // sockets
  std::vector<CpuList> physical_cores;  // hardware threads of one core
  std::vector<Cache> l2_caches;         // empty: unknown
  std::vector<Cache> l3_caches;         // empty: none, or unknown
  std::string source;                   // "hwloc", "sysfs", "xml PATH", "synthetic TEXT"
  friend bool operator==(const HostTopology&, const HostTopology&) = default;
};

struct DiscoverOptions {
  std::string xml_path;      // hwloc XML file (lstopo host.xml) to import instead of this machine
  std::string synthetic;     // or hwloc description to build: "numa:2 l3:1 core:8 pu:2"
  bool allow_hwloc = true;   // false: use /sys and sysconf, the fallback if hwloc fails
  std::string sysfs_root{};  // put before /sys and /proc in the fallback (tests)
};

// The options from RONDO_TOPO_XML and RONDO_TOPO_SYNTHETIC.
DiscoverOptions discover_options_from_environment();

// Returns an error if hwloc refuses an import or description. If hwloc cannot load this machine,
// the fallback is used; that is no error.
Result<HostTopology> discover(const DiscoverOptions& options = {});

// The two implementations of discover(). Each fills the structural part of a HostTopology: cores,
// NUMA nodes, caches, packages, memory, CPU names.
//
// By hwloc: this machine, an XML file or a synthetic description, by the options.
Status read_by_hwloc(const DiscoverOptions& options, HostTopology& host);

// By /sys and /proc below `root`; by sysconf if they cannot be read. Cannot fail.
void read_by_sysfs(const std::string& root, HostTopology& host);

// Call it after either: adds one node and one package if none is known, sums, consistent counts.
void complete(HostTopology& host);

// The vector features of the CPU that Rondo's loops use: a bit mask, and the names of the bits.
//
// Ranks exchange this mask: append bits, never renumber them.
struct CpuFeature {
  std::uint32_t bit;
  const char* name;
};

std::span<const CpuFeature> known_cpu_features();
std::uint32_t detect_cpu_features();            // that both CPU and kernel support
std::string feature_names(std::uint32_t mask);  // "avx2 fma f16c"; "none"

// Sizes of the caches that this process's ranks use: one core's (L2) and the one that cores share
// (L3). They set the sizes of chunks.
//
// Read from /sys for the first CPU of the affinity mask. hwloc has the same values but takes 4 to
// 18 ms to load. Cost: about ten small files, 0.1 ms, once per process.
struct CacheSizes {
  std::uint64_t core_bytes = 0;    // L2; 0: unknown, or none
  std::uint64_t shared_bytes = 0;  // L3; 0: unknown, or none
};

// `root` is put before /sys (tests read the files of a simulated machine).
CacheSizes cache_sizes(const std::string& root = "");

// The identity of this host: a 64-bit number, equal for ranks that can meet in shared memory and
// different for all others.
//
// It is a hash of: the boot id (one kernel, one memory), the node name (clones of one VM snapshot
// have equal boot ids) and the network namespace (ranks meet through abstract Unix sockets, which
// belong to a network namespace). Mount, IPC, PID and user namespaces are left out on purpose:
// neither an abstract socket nor a passed memfd or pidfd depends on them, so containers that share
// the host's network can share memory. NCCL_HOSTID replaces all of it. The transports do not rely
// on the number alone: they first pass a memfd as a proof.
struct HostFacts {
  std::string override_id;  // NCCL_HOSTID
  std::string boot_id;      // or the machine id, if the boot id cannot be read
  std::string node_name;
  std::uint64_t network_namespace = 0;
};

HostFacts read_host_facts();
std::uint64_t host_id_of(const HostFacts& facts);  // never 0
std::uint64_t host_id();                           // of this process, now

}  // namespace rondo::topology
