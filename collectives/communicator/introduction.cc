// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/introduction.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/asymmetric_fence.h"
#include "base/env.h"
#include "collectives/faults/standstill.h"
#include "collectives/host/verified_calls.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/tune_file.h"
#include "collectives/trace/black_box.h"
#include "topology/cpu_budget.h"
#include "topology/host_topology.h"
#include "topology/small_file.h"
#include "transport/cuda/device.h"
#include "transport/networks/network_agreement.h"

namespace rondo {
namespace {

RankFacts facts_of_rank(int rank) {
  RankFacts facts;
  facts.rank = rank;
  facts.process = this_process();
  facts.host = topology::host_id();
  facts.pid = getpid();
  facts.pid_namespace = pid_namespace();
  facts.id_at = reinterpret_cast<std::uintptr_t>(&this_process());
  char hostname[256] = "";
  gethostname(hostname, sizeof(hostname) - 1);
  facts.hostname = hostname;
  return facts;
}

Status add_wishes(const CommOptions& options, InitRecord* mine) {
  RONDO_TRY(mine->algorithms, algorithms_of_environment());
  RONDO_TRY(mine->protocols, parse_protocols(env::get_string("NCCL_PROTO"), "NCCL_PROTO"));
  RONDO_TRY(mine->reads, reads_of_environment());
  RONDO_TRY(mine->verify_every, verified_by_environment());
  mine->reproducible = options.reproducible;
  mine->clock_rounds = trace::BlackBox::clock_rounds();
  mine->buffer_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, env::get_int("NCCL_BUFFSIZE")));
  mine->network = options.network.substr(0, kMaxNetworkName);
  return ok_status();
}

void add_machine(int device, InitRecord* mine) {
  mine->cpu_set = topology::id_of(topology::affinity_cpus());
  mine->cores = topology::usable_cores();
  const topology::CacheSizes caches = topology::cache_sizes();
  mine->core_cache = caches.core_bytes;
  mine->shared_cache = caches.shared_bytes;
  mine->fences_host = prepare_host_fences();
  mine->device = device;
  if (device >= 0) mine->bus_id = gpu::bus_id_of(device);
  const TunedCosts tuned =
      costs_of_environment(device >= 0 ? gpu::device_name_of(device) : std::string());
  mine->costs = tuned.host;
  mine->device_costs = tuned.device;
}

}  // namespace

Result<InitRecord> introduction(const CreateRequest& request, const std::string& socket,
                                const bootstrap::UniqueId& address,
                                const bootstrap::Secret& joined) {
  InitRecord mine;
  mine.facts = facts_of_rank(request.rank);
  mine.facts.socket = socket;
  mine.facts.address = address;
  mine.nonce = auth::random_digest();
  mine.secret_name = name_of(joined);
  RONDO_CHECK_OK(add_wishes(request.options, &mine));
  add_machine(request.options.device, &mine);
  return mine;
}

namespace {

constexpr std::size_t kMaxStatus = 8 << 10;

bool has_seccomp_filter() {
  const auto status = topology::read_small_file("/proc/self/status", kMaxStatus);
  return status && status->find("\nSeccomp:\t2") != std::string::npos;
}

// What forbids the read, and what would allow it.
std::string remedy(int error) {
  if (error != EPERM) return "the processes must see each other under their process ids";
  const auto scope = topology::read_small_file("/proc/sys/kernel/yama/ptrace_scope", 16);
  if (scope && std::atoi(scope->c_str()) > 0)
    return fmt::format("kernel.yama.ptrace_scope is {}, 0 allows it", std::atoi(scope->c_str()));
  if (has_seccomp_filter()) return "a seccomp filter (container, sandbox) may forbid it";
  return "both processes must have one user and one user namespace, and be dumpable";
}

}  // namespace

ProcessMemory memory_of(const RankFacts& rank) { return {rank.pid, rank.id_at, rank.process}; }

std::string obstacle_to_reads(const RankFacts& own, std::span<const RankFacts* const> others) {
  for (const RankFacts* rank : others) {
    const auto refused = [&](std::string_view why, std::string_view cure) {
      return fmt::format("rank {} cannot read memory of rank {} (pid {}): {}; {}", own.rank,
                         rank->rank, rank->pid, why, cure);
    };
    if (rank->pid_namespace != own.pid_namespace)
      return refused("it is in another PID namespace", "one PID namespace for all allows it");
    ProcessId found{};
    const int error = memory_of(*rank).read(&found, rank->id_at, sizeof(found));
    if (error != 0) return refused(strerror(error), remedy(error));
  }
  return "";
}

Result<MemoryReads> reads_of_environment() {
  const std::int64_t asked = env::get_int("RONDO_CMA");
  if (asked < 0 || asked > static_cast<int>(MemoryReads::kAlways))
    return fail(StatusCode::kInvalidUsage, "RONDO_CMA={}: use 0, 1 or 2", asked);
  return static_cast<MemoryReads>(asked);
}

}  // namespace rondo
