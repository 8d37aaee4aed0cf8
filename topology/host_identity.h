// Which host this is: a 64-bit number that is equal for ranks that can meet in shared memory and
// different for all others.
//
// It stands for: the boot (one kernel, one memory), the node name (clones of one snapshot of a
// virtual machine have equal boot ids) and the network namespace (ranks meet through abstract Unix
// sockets, which a network namespace owns). Mount, IPC, PID and user namespaces are left out on
// purpose: neither an abstract socket nor a passed memfd or pidfd depends on them, so containers
// that share the host's network do share memory. NCCL_HOSTID replaces all of it. The transports
// still prove it by passing a memfd before they rely on it.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::topology {

struct HostFacts {
  std::string override_id;  // NCCL_HOSTID
  std::string boot_id;      // or the machine id, where the kernel hides the boot
  std::string node_name;
  std::uint64_t network_namespace = 0;
};

HostFacts read_host_facts();
std::uint64_t host_id_of(const HostFacts& facts);  // never 0
std::uint64_t host_id();                           // of this process, now

}  // namespace rondo::topology
