// SPDX-License-Identifier: Apache-2.0
// slow_links(): finds networks between hosts of a job that are slow or lose packets, by what the
// kernels of the hosts count for the job's TCP connections, and by how long data is under way over
// RDMA ports.
//
// A link is slow if it moves less than a fifth of the median of the job's other links, and lossy if
// more than 2 % of its packets are sent again: an overloaded link drops fewer. If all links from or
// to a host are so, the host is named. Guarantees: a link that carries little, whose sender sends
// seldom, or whose receiver reads slowly is not called slow. Losses of RDMA are not seen, only that
// they make it slow; nor are UCX and plugins. Cost: one pass over all links.
//
//   for (const SlowLink& link : slow_links(view)) fmt::print("{}\n", link.text);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/status/job_view.h"

namespace rondo {

struct SlowLink {
  std::string from, to;         // names of hosts; "": all other hosts
  double bytes_per_second = 0;  // 0: unknown
  double usual_per_second = 0;  // the median of the other links; 0: unknown
  std::uint64_t segments = 0, resent_segments = 0;
  std::string text{};  // one sentence
};

// Hosts all of whose links are bad come first.
std::vector<SlowLink> slow_links(const JobView& view);
Json json_of(const SlowLink& link);

}  // namespace rondo
