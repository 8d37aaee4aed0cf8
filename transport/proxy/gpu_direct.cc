// SPDX-License-Identifier: Apache-2.0
#include "transport/proxy/gpu_direct.h"

#include <fmt/format.h>

#include "base/env.h"
#include "base/gpu.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {
namespace {

using net::Memory;
using topology::PathClass;

constexpr const char* kLevel = "NCCL_NET_GDR_LEVEL";
constexpr const char* kUsualLevel = "PXB";

int attribute(GpuAttribute which, int device) {
  int value = 0;
  return gpu_api()->attribute(&value, which, device) == kGpuSuccess ? value : 0;
}

std::string too_far(const GpuDirectRules& rules, const GpuDirectFacts& facts) {
  if (rules.level == PathClass::kLoc) return fmt::format("{} forbids it", kLevel);
  if (facts.distance <= rules.level) return "";
  return fmt::format("{} is at distance {} from the GPU, and {} allows {}",
                     facts.adapter.empty() ? "an adapter" : facts.adapter,
                     topology::name(facts.distance), kLevel, topology::name(rules.level));
}

}  // namespace

Result<GpuDirectRules> GpuDirectRules::from_environment() {
  GpuDirectRules rules;
  const std::string level = env::get_string(kLevel);
  RONDO_TRY(rules.level, parse_peer_level(level.empty() ? kUsualLevel : level, kLevel));
  rules.read = env::get_bool("NCCL_NET_GDR_READ");
  rules.dmabuf = env::get_bool("NCCL_DMABUF_ENABLE");
  return rules;
}

GpuDirectFacts gpu_direct_facts(int device, const net::Network& network,
                                const topology::NearNics& near) {
  const GpuApi& api = *gpu_api();
  GpuDirectFacts facts;
  facts.network = network.name();
  facts.takes_dmabuf = network.takes(Memory::Kind::kDmabuf);
  facts.takes_device = network.takes(Memory::Kind::kDevice);
  facts.reads_back = network.reads_back();
  if (!facts.takes_dmabuf && !facts.takes_device) return facts;
  facts.mapped =
      VirtualMemory::can_make(device) && attribute(GpuAttribute::kDirectVirtualMemory, device) != 0;
  facts.dmabuf = api.dmabuf_export != nullptr && attribute(GpuAttribute::kDmabuf, device) != 0;
  facts.peermem = attribute(GpuAttribute::kDirectMemory, device) != 0;
  facts.ordered = attribute(GpuAttribute::kDirectOrdering, device) >= kOrderedForOwner;
  facts.flushes = api.flush_direct_writes != nullptr &&
                  (attribute(GpuAttribute::kDirectFlushes, device) & kFlushByHost) != 0;
  const std::vector<topology::NicName> adapters = network.adapters();
  if (!adapters.empty()) facts.distance = PathClass::kLoc;
  for (const topology::NicName& adapter : adapters) {
    const PathClass distance = topology::class_of(near, adapter);
    if (distance < facts.distance) continue;
    facts.distance = distance;
    facts.adapter = adapter.device;
  }
  return facts;
}

GpuDirectVerdict gpu_direct(const GpuDirectRules& rules, const GpuDirectFacts& facts, bool sends) {
  GpuDirectVerdict verdict;
  if (!facts.takes_dmabuf && !facts.takes_device) {
    verdict.why_not = fmt::format("{} moves host memory only", facts.network);
  } else if (sends && !rules.read) {
    verdict.why_not = "NCCL_NET_GDR_READ=0 forbids it";
  } else if (verdict.why_not = too_far(rules, facts); !verdict.why_not.empty()) {
    return verdict;
  } else if (!facts.mapped) {
    verdict.why_not = "the driver maps no memory that NICs can access";
  } else if (!sends && !facts.ordered && !facts.flushes && !facts.reads_back) {
    verdict.why_not = "the GPU sees the writes of NICs only after a flush, which it does not have";
  } else {
    if (facts.takes_dmabuf && facts.dmabuf && rules.dmabuf)
      verdict.kinds.push_back(Memory::Kind::kDmabuf);
    if (facts.takes_device && facts.peermem) verdict.kinds.push_back(Memory::Kind::kDevice);
    verdict.flushes = !sends && !facts.ordered && facts.flushes;
    verdict.reads_back = !sends && !facts.ordered && !facts.flushes;
    if (verdict.kinds.empty())
      verdict.why_not =
          fmt::format("driver and {} have no kind of memory in common", facts.network);
  }
  return verdict;
}

}  // namespace rondo::gpu
