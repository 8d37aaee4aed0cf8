// RankPlacement: where the ranks of a communicator are, and the graphs of their hosts.
//
// Found where ranks have GPUs or there are several hosts; other communicators pay nothing for it.
// Each host's graph is found by its leader (its first rank), whose environment therefore counts:
// NCCL_TOPO_FILE, NVML, /sys, NCCL_IB_HCA. Guarantees: all ranks know the same; nothing that is
// hidden, dead or damaged on a host keeps a communicator from starting: what is known is the graph.
// Cost: two gatherings of all ranks; hosts with equal graphs (equal digests) send one between them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/communicator/host_shape.h"
#include "collectives/communicator/init_record.h"
#include "topology/graph/nearness.h"
#include "topology/graph/nic_filter.h"
#include "transport/bootstrap/session.h"

namespace rondo {

struct RankPlacement {
  std::vector<topology::DeviceLocation> locations;  // by rank
  // By host, as HostShape numbers them. One without devices where it was too much to send.
  std::vector<std::shared_ptr<const topology::Graph>> graphs;
  std::shared_ptr<const topology::Graph> own;  // this rank's host's
  // By host: the ports that its network may use; none: all of them on all hosts.
  std::vector<topology::NicFilter> nic_filters{};
  // Why the communicator cannot be, as every rank concludes by itself: tuner plugins that differ.
  std::string refusal{};
};

struct PlacementRequest {
  int rank = 0;
  const HostShape& shape;
  std::span<const InitRecord> records;
  bootstrap::Session& session;
  std::shared_ptr<const topology::Graph> known;  // of this host, from the parent; null: to be read
  std::string tuner{};                           // name and version of the tuner plugin; "": none
};
// Null where no rank has a GPU and there is one host.
Result<std::shared_ptr<const RankPlacement>> find_placement(const PlacementRequest& request);

// Nodes of a host's graph: the ports that the filter of its network admits.
std::vector<int> admitted_nics(const RankPlacement& placement, int host);

// What a rank tells all others once its host's leader knows the graph.
struct PlacementRecord {
  std::int32_t numa = -1;    // of its cores
  std::uint64_t digest = 0;  // of leaders: of the host's graph, and how many bytes that is
  std::uint32_t graph_bytes = 0;
  std::string hca{};    // of leaders: NCCL_IB_HCA
  std::string tuner{};  // of each rank: PlacementRequest's
  static constexpr std::size_t kMaxHcaBytes = 4096, kMaxTunerBytes = 128;
  Bytes encode() const;
  static Result<PlacementRecord> decode(ByteSpan blob, int rank);
};

// Whose graph counts for each host: the first leader with its digest, who sends it; -1: nobody, as
// they would be too much in all. `leaders`: by host.
std::vector<int> graph_senders(std::span<const int> leaders,
                               std::span<const PlacementRecord> records);

// Which rank has another tuner plugin than rank 0, or none; "": they all have the same.
std::string difference_of_tuners(std::span<const PlacementRecord> records);

}  // namespace rondo
