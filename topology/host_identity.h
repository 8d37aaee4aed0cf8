// SPDX-License-Identifier: Apache-2.0
// The identity of this host: a 64-bit number, equal for ranks that can meet in shared memory and
// different for all others.
//
// It is a hash of: the boot id (one kernel, one memory), the node name (clones of one VM snapshot
// have equal boot ids) and the network namespace (ranks meet through abstract Unix sockets, which
// belong to a network namespace). Mount, IPC, PID and user namespaces are left out on purpose:
// neither an abstract socket nor a passed memfd or pidfd depends on them, so containers that share
// the host's network can share memory. NCCL_HOSTID replaces all of it. The transports do not rely
// on the number alone: they first pass a memfd as a proof.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::topology {

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
