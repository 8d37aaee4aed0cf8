// SPDX-License-Identifier: Apache-2.0
#include "collectives/context/rank_placement.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cassert>
#include <map>

#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text_file.h"
#include "topology/graph/describe_graph.h"
#include "topology/graph/graph.h"
#include "topology/graph/host_graph.h"
#include "topology/graph/nccl_xml.h"
#include "topology/graph/slow_gpus.h"

namespace rondo {
namespace {

using SharedGraph = std::shared_ptr<const topology::Graph>;

// Limit of all graphs together, far below the limit of a session.
constexpr std::uint64_t kMaxBytes = 16u << 20;

int numa_node_here() {
  unsigned node = 0;
  return ::getcpu(nullptr, &node) == 0 ? static_cast<int>(node) : -1;
}

// Stands for an unknown graph.
SharedGraph no_graph() { return std::make_shared<const topology::Graph>(); }

class Finding {
 public:
  explicit Finding(const PlacementRequest& request) : request_(request), shape_(request.shape) {
    assert(request.records.size() == shape_.host.size());
    assert(request.rank >= 0 && static_cast<std::size_t>(request.rank) < shape_.host.size());
    for (int h = 0; h < shape_.hosts(); ++h)
      leaders_.push_back(shape_.ranks[static_cast<std::size_t>(shape_.first[h])]);
  }

  Result<std::shared_ptr<const RankPlacement>> run() {
    auto placement = std::make_shared<RankPlacement>();
    PlacementRecord mine{numa_node_here()};
    mine.tuner = request_.tuner.substr(0, PlacementRecord::kMaxTunerBytes);
    Bytes blob;
    if (leads()) {
      own_ = request_.known ? request_.known : read_graph();
      blob = topology::serialise(*own_);
      mine.digest = own_->digest();
      mine.graph_bytes = static_cast<std::uint32_t>(blob.size());
      mine.hca = env::get_string("NCCL_IB_HCA").substr(0, PlacementRecord::kMaxHcaBytes);
    }
    RONDO_TRY(const auto gathered, request_.session.all_gather(mine.encode()));
    std::vector<PlacementRecord> records;
    for (std::size_t r = 0; r < gathered.size(); ++r) {
      RONDO_TRY(records.emplace_back(), PlacementRecord::decode(gathered[r], static_cast<int>(r)));
      placement->locations.push_back({request_.records[r].bus_id, records.back().numa});
    }
    if (all_on_gpus()) placement->refusal = difference_of_tuners(records);
    for (const int leader : leaders_) {
      // An invalid filter is ignored here; the network reports it.
      auto filter = topology::NicFilter::parse(records[static_cast<std::size_t>(leader)].hca);
      placement->nic_filters.push_back(filter.ok() ? std::move(*filter) : topology::NicFilter());
    }
    const auto senders = graph_senders(leaders_, records);
    const bool sends = std::count(senders.begin(), senders.end(), request_.rank) > 0;
    RONDO_TRY(const auto graphs, request_.session.all_gather(sends ? blob : Bytes{}));
    RONDO_TRY(placement->graphs, graphs_of(senders, graphs));
    placement->own = placement->graphs[static_cast<std::size_t>(own_host())];
    dump(*placement->own);
    if (request_.rank == 0) warn_of_slow_links(*placement);
    return std::shared_ptr<const RankPlacement>(std::move(placement));
  }

 private:
  int own_host() const { return shape_.host_of(request_.rank); }
  bool leads() const { return leaders_[static_cast<std::size_t>(own_host())] == request_.rank; }

  // If only some ranks are on GPUs, check_same_kind() fails on all ranks later.
  bool all_on_gpus() const {
    return std::all_of(request_.records.begin(), request_.records.end(),
                       [](const InitRecord& record) { return record.device >= 0; });
  }

  SharedGraph read_graph() const {
    topology::HostGraphOptions options{.topology_file = env::get_string("NCCL_TOPO_FILE"),
                                       .root = env::get_string("RONDO_SYS_ROOT")};
    if (options.topology_file.empty()) options.topology_file = env::get_string("RONDO_TOPO_XML");
    const int host = own_host();
    for (int i = shape_.first[host]; i < shape_.first[host + 1]; ++i) {
      const int rank = shape_.ranks[static_cast<std::size_t>(i)];
      const std::string& gpu = request_.records[static_cast<std::size_t>(rank)].bus_id;
      if (!gpu.empty()) options.gpus.push_back(gpu);
    }
    auto found = topology::read_host_graph(options);
    if (!found.ok()) {
      RONDO_WARN("the topology of this host's devices is unknown: {}", found.error().text);
      return no_graph();
    }
    if (!found->wrong.empty()) RONDO_WARN("{}", found->wrong);
    for (const std::string& note : found->notes) RONDO_INFO(kGraph, "topology: {}", note);
    RONDO_INFO(kGraph, "topology of this host: {}", topology::sources_of(found->graph));
    return std::make_shared<const topology::Graph>(std::move(found->graph));
  }

  Result<std::vector<SharedGraph>> graphs_of(const std::vector<int>& senders,
                                             const std::vector<Bytes>& sent) const {
    assert(senders.size() == leaders_.size());
    std::vector<SharedGraph> graphs;
    std::map<int, std::size_t> first_of;  // by sender
    for (std::size_t h = 0; h < senders.size(); ++h) {
      const int sender = senders[h];
      const std::size_t before = first_of.try_emplace(sender, h).first->second;
      if (own_ && leaders_[h] == request_.rank) {
        graphs.push_back(own_);
      } else if (sender < 0) {
        graphs.push_back(no_graph());
      } else if (before < h) {
        graphs.push_back(graphs[before]);
      } else {
        auto graph = topology::parse_graph(sent[static_cast<std::size_t>(sender)]);
        if (!graph.ok())
          return fail(StatusCode::kRemoteError,
                      "rank {} sent a graph of its host that cannot be read", sender);
        graphs.push_back(std::make_shared<const topology::Graph>(std::move(graph).value()));
      }
    }
    return graphs;
  }

  void dump(const topology::Graph& graph) const {
    const std::string path = env::get_string("NCCL_TOPO_DUMP_FILE");
    if (path.empty() || env::get_int("NCCL_TOPO_DUMP_FILE_RANK") != request_.rank) return;
    const Status written = write_output(path, topology::write_nccl_xml(graph));
    if (!written.ok()) RONDO_WARN("NCCL_TOPO_DUMP_FILE: {}", written.error().text);
  }

  // A ring is as fast as its slowest link, so one such GPU slows down all ranks.
  void warn_of_slow_links(const RankPlacement& placement) const {
    std::vector<int> ranks;
    std::vector<topology::GpuLinks> links;
    for (std::size_t r = 0; r < placement.locations.size(); ++r) {
      const int rank = static_cast<int>(r);
      const topology::Graph& graph =
          *placement.graphs[static_cast<std::size_t>(shape_.host_of(rank))];
      const std::string& gpu = placement.locations[r].gpu;
      const int node = gpu.empty() ? -1 : graph.find(gpu);
      if (node < 0) continue;
      ranks.push_back(rank);
      links.push_back(topology::links_of(graph, node));
    }
    constexpr std::size_t kMaxNamed = 8;
    const auto slow = topology::slower_than_peers(links);
    std::string text;
    for (std::size_t i = 0; i < std::min(slow.size(), kMaxNamed); ++i) {
      const auto rank = static_cast<std::size_t>(ranks[slow[i].place]);
      text += fmt::format("{}rank {} (GPU {} of {}) has {}", i == 0 ? "" : "; ", rank,
                          placement.locations[rank].gpu, request_.records[rank].facts.hostname,
                          slow[i].text);
    }
    if (slow.size() > kMaxNamed) text += fmt::format("; {} more", slow.size() - kMaxNamed);
    if (!slow.empty())
      RONDO_WARN(
          "{}: rings over such a GPU are as slow; nvidia-smi nvlink -s and lspci -vv show "
          "links that are down",
          text);
  }

  const PlacementRequest& request_;
  const HostShape& shape_;
  std::vector<int> leaders_;  // by host
  SharedGraph own_;           // leaders only
};

}  // namespace

Bytes PlacementRecord::encode() const {
  ByteWriter out;
  out.put(numa);
  out.put(digest);
  out.put(graph_bytes);
  out.put_string(hca);
  out.put_string(tuner);
  return out.take();
}

Result<PlacementRecord> PlacementRecord::decode(ByteSpan blob, int rank) {
  ByteReader in(blob);
  PlacementRecord record;
  record.numa = in.get<std::int32_t>();
  record.digest = in.get<std::uint64_t>();
  record.graph_bytes = in.get<std::uint32_t>();
  record.hca = in.get_string();
  record.tuner = in.get_string();
  if (!in.finished() || record.numa < -1 || record.hca.size() > kMaxHcaBytes ||
      record.tuner.size() > kMaxTunerBytes)
    return fail(StatusCode::kRemoteError, "rank {} sent a placement that cannot be read", rank);
  return record;
}

std::vector<int> admitted_nics(const RankPlacement& placement, int host) {
  assert(host >= 0 && static_cast<std::size_t>(host) < placement.graphs.size());
  const topology::Graph& graph = *placement.graphs[static_cast<std::size_t>(host)];
  std::vector<int> admitted(graph.nics().begin(), graph.nics().end());
  if (placement.nic_filters.empty()) return admitted;
  const topology::NicFilter& filter = placement.nic_filters[static_cast<std::size_t>(host)];
  std::erase_if(admitted, [&](int nic) {
    return !filter.admits(graph.node(nic).name, graph.node(nic).port);
  });
  return admitted;
}

std::vector<int> graph_senders(std::span<const int> leaders,
                               std::span<const PlacementRecord> records) {
  std::vector<int> senders;
  std::map<std::uint64_t, int> of_digest;
  std::uint64_t bytes = 0;
  for (const int leader : leaders) {
    const PlacementRecord& record = records[static_cast<std::size_t>(leader)];
    assert(leader >= 0);
    auto [known, is_new] = of_digest.try_emplace(record.digest, leader);
    if (is_new && bytes + record.graph_bytes > kMaxBytes) known->second = -1;
    if (is_new && known->second >= 0) bytes += record.graph_bytes;
    senders.push_back(known->second);
  }
  return senders;
}

std::string difference_of_tuners(std::span<const PlacementRecord> records) {
  const auto text = [](const PlacementRecord& record) {
    return record.tuner.empty() ? std::string("none") : "'" + printable(record.tuner) + "'";
  };
  for (std::size_t r = 1; r < records.size(); ++r)
    if (records[r].tuner != records[0].tuner)
      return fmt::format(
          "the tuner plugin of rank {} is {}, that of rank 0 {}: give all ranks the same one, or "
          "set NCCL_TUNER_PLUGIN=none on all",
          r, text(records[r]), text(records[0]));
  return {};
}

Result<std::shared_ptr<const RankPlacement>> find_placement(const PlacementRequest& request) {
  const bool gpus = std::any_of(request.records.begin(), request.records.end(),
                                [](const InitRecord& record) { return record.device >= 0; });
  if (!gpus && request.shape.hosts() == 1) return std::shared_ptr<const RankPlacement>();
  return Finding(request).run();
}

int Membership::local_of(int global) const {
  const auto it = std::lower_bound(local_ranks.begin(), local_ranks.end(), global);
  return it != local_ranks.end() && *it == global ? static_cast<int>(it - local_ranks.begin()) : -1;
}

int Membership::global_of(const WaitSite& site) const {
  assert(site.peer < static_cast<int>(local_ranks.size()));
  return site.peer >= 0 ? local_ranks[static_cast<std::size_t>(site.peer)] : site.global_rank;
}

std::string Membership::name_of(int global) const {
  assert(global >= 0 && static_cast<std::size_t>(global) < ranks.size());
  const RankFacts& facts = ranks[static_cast<std::size_t>(global)];
  return fmt::format("rank {} (pid {} on {})", facts.rank, facts.pid, facts.hostname);
}

const shm::PeerProcess& Membership::process_of(int local) const {
  assert(group != nullptr && local >= 0);
  assert(static_cast<std::size_t>(local) < group->process_of_member.size());
  return group->processes[static_cast<std::size_t>(
      group->process_of_member[static_cast<std::size_t>(local)])];
}

topology::NearNics Membership::near_nics() const {
  if (!placement) return {};
  std::vector<topology::DeviceLocation> here;
  for (const int local : local_ranks)
    here.push_back(placement->locations[static_cast<std::size_t>(local)]);
  return topology::near_nics(*placement->own, here, local_of(rank));
}

}  // namespace rondo
