// SPDX-License-Identifier: Apache-2.0
// Records of ranks on GPUs that have no device: rank r is on host hosts[r] (empty: one host), in
// process processes[r] and on GPU gpus[r]. All GPUs of a host have peer access.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/gpu/plan/gpu_plan.h"

namespace rondo::gpu {

inline GpuRecords gpu_records(const std::vector<int>& hosts, const std::vector<int>& processes,
                              const std::vector<int>& gpus) {
  GpuRecords made;
  for (std::size_t r = 0; r < processes.size(); ++r) {
    if (!hosts.empty()) made.hosts.push_back(static_cast<std::uint64_t>(100 + hosts[r]));
    made.processes.push_back({7, static_cast<std::uint64_t>(processes[r])});
    GpuFacts facts;
    facts.uuid[0] = static_cast<unsigned char>(gpus[r]);
    facts.resident_ctas = 100;
    facts.protocols_within = facts.protocols_between = kUsualProtocols;
    facts.from_bytes = 4096;
    facts.staging_bytes = facts.message_bytes = 1 << 20;
    made.facts.push_back(facts);
    const auto here = hosts.empty() ? static_cast<std::ptrdiff_t>(processes.size())
                                    : std::count(hosts.begin(), hosts.end(), hosts[r]);
    made.reach.emplace_back(static_cast<std::size_t>(here), std::byte{1});
  }
  return made;
}

// For ranks that are first on their host.
inline void separate(GpuRecords& of, int a, int b) {
  of.reach[a][b] = of.reach[b][a] = std::byte{0};
}

}  // namespace rondo::gpu
