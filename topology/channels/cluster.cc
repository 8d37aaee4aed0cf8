// SPDX-License-Identifier: Apache-2.0
#include "topology/channels/cluster.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>

namespace rondo::topology {
namespace {

// The path of a channel through one host, in the ring's direction.
struct Way {
  std::vector<int> ranks;
  int in = -1, out = -1;
};

Way way_of(const ClusterHost& host, const Channel& channel, bool turned) {
  assert(channel.gpus.size() == host.gpus.size());
  Way way{{}, channel.in, channel.out};
  for (const int gpu : channel.gpus) {
    const auto at = std::find(host.gpus.begin(), host.gpus.end(), gpu) - host.gpus.begin();
    way.ranks.push_back(host.ranks[static_cast<std::size_t>(at)]);
  }
  if (!turned) return way;
  std::reverse(way.ranks.begin(), way.ranks.end());
  std::swap(way.in, way.out);
  return way;
}

Status check(std::span<const ClusterHost> hosts) {
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const ClusterHost& host = hosts[h];
    if (host.gpus.size() != host.ranks.size()) {
      return fail(StatusCode::kInvalidArgument, "host {} has {} ranks on {} GPUs", h,
                  host.ranks.size(), host.gpus.size());
    }
    if (hosts.size() > 1 && host.nics.empty()) {
      return fail(StatusCode::kInvalidArgument,
                  "host {} has no network port: its channels reach no other host", h);
    }
  }
  return ok_status();
}

using Plans = std::vector<const ChannelPlan*>;  // by host

ClusterPlan join(std::span<const ClusterHost> hosts, const Plans& plans) {
  assert(!hosts.empty() && plans.size() == hosts.size());
  ClusterPlan joined;
  std::size_t channels = plans.front()->channels.size();
  for (const ChannelPlan* plan : plans) channels = std::min(channels, plan->channels.size());
  const auto slower = [](const ChannelPlan* a, const ChannelPlan* b) {
    return a->channel_gbs < b->channel_gbs;
  };
  const auto slowest = std::min_element(plans.begin(), plans.end(), slower);
  joined.slowest_host = static_cast<int>(slowest - plans.begin());
  joined.channel_gbs = (*slowest)->channel_gbs;
  joined.slowest = (*slowest)->slowest;
  joined.bound_gbs = (*slowest)->bound_gbs;
  for (const ChannelPlan* plan : plans) {
    joined.bound_gbs = std::min(joined.bound_gbs, plan->bound_gbs);
    joined.complete &= plan->complete;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    ClusterRing ring;
    std::vector<Way> ways;
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      ways.push_back(way_of(hosts[h], plans[h]->channels[c], h % 2 == 1));
      ring.ranks.insert(ring.ranks.end(), ways.back().ranks.begin(), ways.back().ranks.end());
    }
    for (std::size_t h = 0; h < hosts.size() && hosts.size() > 1; ++h) {
      const Way &from = ways[h], &to = ways[(h + 1) % hosts.size()];
      ring.crossings.push_back({from.ranks.back(), to.ranks.front(), from.out, to.in});
    }
    joined.rings.push_back(std::move(ring));
  }
  return joined;
}

}  // namespace

Result<ClusterPlan> find_channels(std::span<const ClusterHost> hosts, const ClusterLimits& limits) {
  if (hosts.empty()) return fail(StatusCode::kInvalidArgument, "channels of no host");
  RONDO_CHECK_OK(check(hosts));
  using Kind = std::tuple<std::uint64_t, std::vector<int>, std::vector<int>>;
  std::map<Kind, ChannelPlan> searched;
  Plans plans;
  for (const ClusterHost& host : hosts) {
    const std::vector<int> nics = hosts.size() > 1 ? host.nics : std::vector<int>{};
    const Kind kind{host.graph->digest(), host.gpus, nics};
    auto found = searched.find(kind);
    if (found == searched.end()) {
      RONDO_TRY(ChannelPlan plan,
                find_channels(*host.graph,
                              ChannelRequest{host.gpus, nics, limits.ports, limits.max_channels}));
      found = searched.emplace(kind, std::move(plan)).first;
    }
    plans.push_back(&found->second);
  }
  ClusterPlan joined = join(hosts, plans);
  joined.searches = static_cast<int>(searched.size());
  return joined;
}

Result<ClusterPlan> find_channels(std::span<const ClusterHost> hosts, int cross_nic,
                                  int max_channels) {
  ClusterLimits limits{PortUse::kSame, std::clamp(max_channels, 1, kMaxRings)};
  if (hosts.size() == 1 || cross_nic == 0) return find_channels(hosts, limits);
  limits.ports = PortUse::kPairs;
  RONDO_TRY(ClusterPlan any, find_channels(hosts, limits));
  if (cross_nic == 1) return any;
  limits.ports = PortUse::kSame;
  RONDO_TRY(ClusterPlan same, find_channels(hosts, limits));
  constexpr double kAsFast = 1 - 1e-6;
  return same.gbs() >= any.gbs() * kAsFast ? std::move(same) : std::move(any);
}

}  // namespace rondo::topology
