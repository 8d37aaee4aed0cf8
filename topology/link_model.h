// The alpha-beta model of links: how long `bytes` take from one rank to another.
//
// A table with one row a kind of link; the rows start as priors (most measured on one two-core
// EPYC, the others published orders of magnitude) and are meant to be replaced by measurements. The
// cost model orders algorithms by it and the simulator moves bytes by it: what must be right is the
// ratio of rows, not the figures. 1 GB/s is 1 byte a nanosecond.
//
//   const LinkTable links = link_table(*host, network_gbs(read_net_interfaces()));
//   const Link& link = links[link_between(places[a], places[b])];
//   const double ns = transfer_ns(link, 1 << 20);
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "topology/rank_layout.h"

namespace rondo::topology {

// From near to far: what two ranks have in common.
enum class LinkKind : std::uint8_t {
  kTimeShared,    // one CPU: they take turns
  kSharedL2,      // hardware threads of one core, or cores of one cluster
  kSharedL3,      // cores of one L3 cache
  kSameNuma,      // one NUMA node, different L3
  kSamePackage,   // one socket, other NUMA node
  kCrossPackage,  // other socket of the host, or ranks that may run anywhere
  kTcpLoopback,   // one host, but no common memory
  kNetwork,       // other host
};
inline constexpr int kLinkKinds = 8;
const char* name(LinkKind kind);

struct Link {
  LinkKind kind = LinkKind::kNetwork;
  double latency_ns = 0;           // of an empty message while the receiver spins (or yields)
  double parked_ns = 0;            // the same while the receiver sleeps in the kernel
  double cached_gbs = 0;           // while the data fits into the cache between the two
  double memory_gbs = 0;           // beyond that
  std::uint64_t cached_bytes = 0;  // where "beyond" begins
  bool measured = false;           // the prior stands on a measurement
};

class LinkTable {
 public:
  const Link& operator[](LinkKind kind) const { return rows_[static_cast<std::size_t>(kind)]; }
  Link& operator[](LinkKind kind) { return rows_[static_cast<std::size_t>(kind)]; }
  const std::array<Link, kLinkKinds>& rows() const { return rows_; }

 private:
  friend LinkTable link_priors();
  friend LinkTable link_table(const HostTopology& host, double network_gbs);
  std::array<Link, kLinkKinds> rows_{};
};

LinkTable link_priors();

// The priors with this host's cache sizes and the network's speed filled in.
LinkTable link_table(const HostTopology& host, double network_gbs);

// `share_memory`: false where the ranks, though on one host, failed to pass each other memory.
LinkKind link_between(const RankPlace& a, const RankPlace& b, bool share_memory = true);

// The same by rank: on a crowded host, ranks with the same CPUs take turns on them.
LinkKind link_between(const RankLayout& layout, std::span<const RankPlace> places, int a, int b,
                      bool share_memory = true);

double transfer_ns(const Link& link, std::uint64_t bytes);

}  // namespace rondo::topology
