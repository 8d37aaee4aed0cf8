#include "topology/link_model.h"

#include <algorithm>

namespace rondo::topology {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kAnySize = ~std::uint64_t{0};

// Bandwidths are one sender's. Memory rates are those of plain stores (8.7 GB/s measured); stores
// that bypass the cache reach about twice that.
constexpr std::array<Link, kLinkKinds> kPriors = {{
    // kind, latency, parked latency (ns), cached, memory (GB/s), cached bytes, measured
    {LinkKind::kTimeShared, 1800, 2900, 34, 8.7, 16 * kMiB, true},
    {LinkKind::kSharedL2, 30, 45'000, 34, 8.7, 16 * kMiB, false},
    {LinkKind::kSharedL3, 70, 45'000, 24, 8.7, 16 * kMiB, true},
    {LinkKind::kSameNuma, 140, 45'000, 16, 8.7, 16 * kMiB, false},
    {LinkKind::kSamePackage, 180, 45'000, 12, 8, 16 * kMiB, false},
    {LinkKind::kCrossPackage, 300, 50'000, 8, 6, 16 * kMiB, false},
    {LinkKind::kTcpLoopback, 4900, 62'000, 5.9, 5.9, kAnySize, true},
    {LinkKind::kNetwork, 25'000, 80'000, 1.175, 1.175, kAnySize, false},
}};

bool same(std::int32_t a, std::int32_t b) { return a >= 0 && a == b; }

}  // namespace

const char* name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kTimeShared:
      return "one cpu in turns";
    case LinkKind::kSharedL2:
      return "shared L2";
    case LinkKind::kSharedL3:
      return "shared L3";
    case LinkKind::kSameNuma:
      return "same NUMA node";
    case LinkKind::kSamePackage:
      return "same package";
    case LinkKind::kCrossPackage:
      return "other package";
    case LinkKind::kTcpLoopback:
      return "TCP loopback";
    case LinkKind::kNetwork:
      return "network";
  }
  return "unknown";
}

LinkTable link_priors() {
  LinkTable table;
  table.rows_ = kPriors;
  return table;
}

LinkTable link_table(const HostTopology& host, double network_gbs) {
  LinkTable table = link_priors();
  const std::uint64_t last_level = host.l3_bytes > 0 ? host.l3_bytes : host.l2_bytes;
  for (Link& link : table.rows_) {
    const bool by_memory = link.kind < LinkKind::kTcpLoopback;
    // Sender's and receiver's copy lie in the cache together.
    if (by_memory && last_level > 0) link.cached_bytes = last_level / 2;
  }
  if (network_gbs > 0) {
    table[LinkKind::kNetwork].cached_gbs = network_gbs;
    table[LinkKind::kNetwork].memory_gbs = network_gbs;
  }
  return table;
}

LinkKind link_between(const RankPlace& a, const RankPlace& b, bool share_memory) {
  if (a.host_id != b.host_id) return LinkKind::kNetwork;
  const bool same_process = a.process_id == b.process_id;
  if (!share_memory && !same_process) return LinkKind::kTcpLoopback;
  if (same(a.cpu, b.cpu)) return LinkKind::kTimeShared;
  if (same(a.l2, b.l2)) return LinkKind::kSharedL2;
  if (same(a.l3, b.l3)) return LinkKind::kSharedL3;
  if (same(a.numa, b.numa)) return LinkKind::kSameNuma;
  if (same(a.package, b.package)) return LinkKind::kSamePackage;
  return LinkKind::kCrossPackage;
}

LinkKind link_between(const RankLayout& layout, std::span<const RankPlace> places, int a, int b,
                      bool share_memory) {
  const LinkKind kind = link_between(places[a], places[b], share_memory);
  const bool by_memory = kind < LinkKind::kTcpLoopback;
  const bool turns = layout.host(a).crowded && places[a].cpu_set_id == places[b].cpu_set_id;
  return by_memory && turns ? LinkKind::kTimeShared : kind;
}

double transfer_ns(const Link& link, std::uint64_t bytes) {
  const std::uint64_t cached = std::min(bytes, link.cached_bytes);
  return link.latency_ns + static_cast<double>(cached) / link.cached_gbs +
         static_cast<double>(bytes - cached) / link.memory_gbs;
}

}  // namespace rondo::topology
