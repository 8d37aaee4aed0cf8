// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/introduction.h"

#include <unistd.h>

#include <algorithm>

#include "base/asymmetric_fence.h"
#include "base/env.h"
#include "collectives/communicator/read_check.h"
#include "collectives/faults/standstill.h"
#include "collectives/host/verified_calls.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/tune_file.h"
#include "collectives/trace/black_box.h"
#include "topology/cpu_budget.h"
#include "topology/cpu_features.h"
#include "topology/host_identity.h"
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

}  // namespace rondo
